// The keys of the page: `/` goes to the search, `j` and `k` go down and up in a list. They do nothing while one writes.

const WRITES = "input, textarea, select";
const SEARCH = "main input[type=search], main textarea";
const LISTS = "main .rows, main .conversations ul, main .score, main .state-rows";

window.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.target as Element).closest(WRITES)) return;
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector<HTMLElement>(SEARCH)?.focus();
  } else if (event.key === "j" || event.key === "k") {
    // The list with the focus, or else the first one.
    const list = document.activeElement?.closest(LISTS) ?? document.querySelector(LISTS);
    const items = [...(list?.querySelectorAll<HTMLElement>("a, button:enabled") ?? [])];
    const at = items.findIndex((item) => item === document.activeElement);
    items[at < 0 ? 0 : at + (event.key === "j" ? 1 : -1)]?.focus();
  }
});

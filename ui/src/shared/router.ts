// The address bar as a signal. Every view has a URL, so the back button and deep links work.
import { computed, signal } from "@preact/signals";
import { ROOT, addressOf } from "./address";

const location_ = signal(shown());

/** True if the user has come to this address by the back or the forward button. */
export let isReturn = false;

window.addEventListener("popstate", () => {
  isReturn = true;
  read();
});

function shown(): { path: string; query: string; hash: string } {
  const { pathname, search, hash } = window.location;
  return { path: pathname.slice(ROOT.length), query: search, hash };
}

function read(): void {
  location_.value = shown();
}

export const path = computed(() => location_.value.path);
export const query = computed(() => new URLSearchParams(location_.value.query));
/** What is selected in the view: the part behind `#`, empty if nothing is. */
export const selection = computed(() => location_.value.hash.slice(1));

/** Select something in the view, or nothing. It leaves no entry in the history. */
export function select(name: string | null): void {
  navigate(`${path.value}${window.location.search}${name ? `#${name}` : ""}`, true);
}

/** Go to `view`, a path with an optional query and selection; `replace` leaves no entry in the history. */
export function navigate(view: string, replace = false): void {
  const url = addressOf(view);
  if (url === window.location.pathname + window.location.search + window.location.hash) return;
  isReturn = false;
  if (replace) window.history.replaceState(null, "", url);
  else window.history.pushState(null, "", url);
  read();
}

/** Follow a plain click on a link inside the page; the browser handles every other click. */
export function follow(event: MouseEvent): void {
  const link = (event.target as Element).closest("a");
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || link.origin !== window.location.origin || link.hasAttribute("download")) return;
  if (!link.pathname.startsWith(`${ROOT}/`)) return;
  event.preventDefault();
  navigate(link.pathname.slice(ROOT.length) + link.search + link.hash);
}

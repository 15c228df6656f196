"""`make page-figures`: measure how fast the page is in a browser whose CPU is slowed down four times, and print the figures."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from benchmarks.goals import against, print_missed
from graph_agent.bootstrap import LOCAL_USER
from tests.chat.environment import migrated
from tests.page.history import with_decisions
from tests.page.screenshots import with_key
from tests.page.site import Site, chromium, open_site

SLOWDOWN = 4
RUNS = 9
SCROLLS = 3
DECISIONS = 10_000
SCROLLED_PX = 400
"""Pixels that the list is scrolled in each frame: at 60 frames a second 500 rows a second."""
VIEWS = {"chat": "textarea", "decisions": ".row"}
"""The views, and the element of each that a user waits for."""
GOAL_PAINT_MS = 300
GOAL_INTERACTIVE_MS = 500
GOAL_TASK_MS = 50

OBSERVE = """
window.longTasks = [];
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((one) => [one.startTime, one.duration])))
    .observe({type: "longtask", buffered: true});
new MutationObserver((_, observer) => {
    if (!document.querySelector(READY)) return;
    observer.disconnect();
    // After the frame in which it is shown: then a click or a key is answered.
    requestAnimationFrame(() => setTimeout(() => {
        window.readyAt = performance.now();
        console.debug("ready");
    }));
}).observe(document, {childList: true, subtree: true});
"""
SCROLL = """async () => {
    const seen = () => document.querySelector("[aria-posinset]:last-child")?.getAttribute("aria-posinset");
    const frame = () => new Promise(requestAnimationFrame);
    longTasks.length = 0;
    let last = "";
    for (let idle = 0; idle < 240 && last !== COUNT; idle = last === seen() ? idle + 1 : 0) {
        last = seen();
        document.querySelector(".decisions").scrollBy(0, STEP);
        await frame();
    }
    return [Number(last), ...longTasks.map(([, duration]) => duration)];
}"""


@contextmanager
def slow_page(site: Site) -> Iterator[Page]:
    """A signed-in page with an empty cache, in a slow browser."""
    with site.context() as context:
        # Signs in without loading a part of the page.
        assert context.request.get(site.link).ok
        page = context.new_page()
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
        yield page


def open_view(site: Site, page: Page, view: str) -> None:
    page.add_init_script(OBSERVE.replace("READY", repr(VIEWS[view])))
    # Nothing is evaluated until the view is ready: Playwright's own script would take time of the page.
    with page.expect_console_message(lambda message: message.text == "ready"):
        page.goto(f"{site.url}/{view}", wait_until="commit")


def load(site: Site, view: str) -> tuple[float, float]:
    """Open a view; return when something was painted, and when it was shown and the page was idle, in ms."""
    with slow_page(site) as page:
        open_view(site, page, view)
        painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        return painted, page.evaluate("Math.max(readyAt, ...longTasks.map(([start, duration]) => start + duration))")


def scroll(site: Site) -> tuple[int, float]:
    """Scroll through the list; return the number of its last row, and the longest task in ms, 0 if none was long."""
    with slow_page(site) as page:
        open_view(site, page, "decisions")
        last, *long = page.evaluate(SCROLL.replace("COUNT", f"'{DECISIONS}'").replace("STEP", str(SCROLLED_PX)))
        return last, max(long, default=0.0)


def main() -> None:
    """Print the figures beside their goals: the medians of several loads, and the longest task of a scroll."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = asyncio.run(migrated(folder / "template"))
        asyncio.run(with_decisions(log, LOCAL_USER, DECISIONS))
        with chromium() as browser, open_site(browser, folder / "site", log, with_key) as site:
            loads = {view: [load(site, view) for _ in range(RUNS)] for view in VIEWS}
            scrolls = [scroll(site) for _ in range(SCROLLS)]
    print(f"the page on loopback in Chromium, its CPU slowed down {SLOWDOWN} times; medians\n")
    for view, times in loads.items():
        painted, interactive = map(statistics.median, zip(*times, strict=True))
        print(f"{view:12}first paint {painted:4.0f} ms" + against(f"first paint of {view}", painted, GOAL_PAINT_MS, " ms"))
        print(
            f"{'':12}interactive {interactive:4.0f} ms"
            + against(f"interactive {view}", interactive, GOAL_INTERACTIVE_MS, " ms")
        )
    rows = min(last for last, _ in scrolls)
    longest = statistics.median(long for _, long in scrolls)
    line = f"{'scroll':12}{rows:,} rows, longest task {longest:.0f} ms (0: none over 50)"
    print(line + against("task while scrolling", longest, GOAL_TASK_MS, " ms"))
    print_missed()


if __name__ == "__main__":
    main()

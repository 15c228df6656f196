"""The keyboard: in every view each control is reached by Tab, shows that it has the focus, and lets it go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_small_screens import ready

MOST_CONTROLS = 120

_NUMBER_CONTROLS = """() => {
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
    .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true }));
  all.forEach((one, place) => { one.dataset.control = place; });
  return all.map((one) => one.outerHTML.slice(0, 120));
}"""
_FOCUSED = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  // The frame shows the focus of the message field, and the rectangle that of a state.
  const marked = [one, one.closest(".composer"), one.querySelector(":scope > rect")].some((shown) => {
    if (!shown) return false;
    const { outlineStyle, outlineWidth, strokeWidth } = getComputedStyle(shown);
    const hasOutline = outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
    return hasOutline || (shown.matches("rect") && parseFloat(strokeWidth) >= 2);
  });
  return { place: Number(one.dataset.control ?? -1), marked, html: one.outerHTML.slice(0, 120) };
}"""


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Site]:
    with open_site(browser, tmp_path_factory.mktemp("site"), template, lambda environment: environment.runtime()) as site:
        yield site


def unreached(page: Page) -> list[str]:
    """Press Tab through the whole page; return the controls that it did not reach, or that did not show it."""
    controls = page.evaluate(_NUMBER_CONTROLS)
    assert 0 < len(controls) < MOST_CONTROLS
    reached, unmarked, leaves = set(), [], 0
    for _ in range(2 * MOST_CONTROLS):
        page.keyboard.press("Tab")
        if (focused := page.evaluate(_FOCUSED)) is None:
            # The first time, it has begun where the focus was before.
            leaves += 1
            if leaves == 2:
                break
            continue
        reached.add(focused["place"])
        unmarked += [] if focused["marked"] or leaves == 0 else [f"without a mark: {focused['html']}"]
    else:
        unmarked.append("the focus does not leave the page")
    return [*unmarked, *(f"not reached: {html}" for place, html in enumerate(controls) if place not in reached)]


def test_each_control_of_every_view_is_reached_and_shows_it(site: Site) -> None:
    with site.page() as page:
        say(page, "add a task to call mom")
        say(page, "delete the call mom task")
        found = {"question": unreached(page)}
        decision = page.locator(".message footer a").last.evaluate("link => link.pathname")
        page.locator(".panel-toggle").click()
        page.locator(".state").first.wait_for()
        found["panel"] = unreached(page)
        views = ("/chat", "/inbox", "/decisions", decision, f"{decision}/rules", "/lab", "/behavior", "/help")
        for view in views:
            page.goto(f"{site.url}{view}")
            ready(page)
            # It is there while the decisions are replayed.
            expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
            found[view] = unreached(page)
    assert found == {view: [] for view in found}


def test_escape_closes_what_lies_over_the_page_and_gives_the_focus_back(site: Site) -> None:
    with site.page() as page:
        button = page.get_by_title("Account and help")
        button.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#account")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#account")).to_be_hidden()
        expect(button).to_be_focused()

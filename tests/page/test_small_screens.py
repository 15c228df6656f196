"""Small windows and zoom: nothing runs out at the side, nothing jumps, and nothing is a barrier in either color scheme."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings

SIZES = {"320 px": (320, 568), "400 %": (320, 256), "390 px": (390, 780), "1024 px": (1024, 760)}
"""A window of 1280 x 1024 pixels has 320 x 256 of them at 400 %."""

_OUTSIDE = """() => [...document.querySelectorAll("body *")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > window.innerWidth + 1)
  .filter((one) => !one.closest(".wide, svg, pre, .visually-hidden, [popover]"))
  .map((one) => one.tagName + "." + one.className)"""
_WITHOUT_FOCUS = """() => [...document.querySelectorAll("body *")]
  .filter((one) => /auto|scroll/.test(getComputedStyle(one).overflowY) && one.scrollHeight > one.clientHeight + 1)
  .filter((one) => one.tabIndex < 0 && !one.querySelector("a[href], button, input, select, textarea, [tabindex='0']"))
  .map((one) => one.tagName + "." + one.className)"""


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Site]:
    with open_site(browser, tmp_path_factory.mktemp("site"), template, lambda environment: environment.runtime()) as site:
        yield site


@pytest.fixture(scope="module")
def views(site: Site) -> list[str]:
    """Every view, with something to show: a long task, a question, and a decision."""
    with site.page() as page:
        say(page, "add a task to write a letter about " + "heating-and-stairs-" * 12)
        say(page, "delete the letter task")
        decision = page.locator(".message footer a").last.evaluate("link => link.pathname")
        chat = page.evaluate("location.pathname")
    return [
        chat,
        "/chat",
        "/inbox",
        "/decisions",
        decision,
        f"{decision}/rules",
        "/lab",
        decision.replace("decisions", "lab"),
        "/behavior",
        "/help",
    ]


def barriers(page: Page) -> list[object]:
    """Return what runs out at the side, what scrolls and cannot be reached by the keyboard, and what axe-core reports."""
    return [*page.evaluate(_OUTSIDE), *page.evaluate(_WITHOUT_FOCUS), *findings(page)]


def ready(page: Page) -> None:
    page.locator(".columns, .message, .waiting, .rules-text, .row, .tiles, .words, .examples button").first.wait_for()
    expect(page.locator(".loading")).to_have_count(0)


# Before the long tests: the question is valid for five minutes.
def test_the_buttons_of_a_card_are_in_sight_with_a_long_text(site: Site, views: list[str]) -> None:
    with site.page(viewport={"width": 390, "height": 640}) as page:
        page.goto(f"{site.url}{views[0]}")
        expect(page.get_by_role("button", name="Confirm")).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("timer")).to_be_in_viewport(ratio=1)


# The colors do not depend on the size: test_accessibility has every view in both color schemes.
@pytest.mark.parametrize(("size", "scheme"), list(zip(SIZES, itertools.cycle(["light", "dark"]))))
def test_every_view_fits_and_has_no_barrier(site: Site, views: list[str], size: str, scheme: str) -> None:
    width, height = SIZES[size]
    found = {}
    with site.page(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce") as page:
        for view in views:
            page.goto(f"{site.url}{view}")
            ready(page)
            page_width = page.evaluate("document.documentElement.scrollWidth")
            found[view] = [*barriers(page), page_width]
    assert found == {view: [width] for view in views}


def test_the_state_machine_is_beside_the_chat_at_1024_px(site: Site, views: list[str]) -> None:
    with site.page(viewport={"width": 1024, "height": 760}) as page:
        page.goto(f"{site.url}{views[0]}")
        page.locator(".panel-toggle").click()
        for state in ("BUILD_REQUEST", "BUILD_DECISION"):
            expect(page.locator(f"[data-state={state}]")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("size", ["390 px", "1024 px"])
def test_nothing_jumps_while_a_view_loads(site: Site, views: list[str], size: str) -> None:
    width, height = SIZES[size]
    moved = {}
    with site.page(viewport={"width": width, "height": height}) as page:
        page.add_init_script(
            "window.moved = 0; new PerformanceObserver((list) => list.getEntries().forEach((one) => {"
            " if (!one.hadRecentInput) window.moved += one.value; })).observe({ type: 'layout-shift', buffered: true });"
        )
        # What the server has is told after the first paint, as by a busy one.
        asked: list[Route] = []
        page.route("**/api/about", lambda route: asked.append(route))  # Playwright marks the function that it is given.
        for view in views:
            with page.expect_request("**/api/about"):
                page.goto(f"{site.url}{view}")
            page.evaluate(
                "new Promise((painted) => new PerformanceObserver(painted).observe({ type: 'paint', buffered: true }))"
            )
            for route in asked:
                route.continue_()
            asked.clear()
            ready(page)
            page.wait_for_load_state("networkidle")
            moved[view] = page.evaluate("window.moved")
    # Up to 0.1 counts as good; a list that arrives below a title moves less than half of that.
    assert {view: shift for view, shift in moved.items() if shift > 0.05} == {}

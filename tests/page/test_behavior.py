"""The behavior view in a browser: figures over time, and the verification of the record."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from graph_agent.bootstrap import LOCAL_USER
from tests.chat.environment import migrated
from tests.page.history import with_history
from tests.page.screenshots import say, with_key
from tests.page.site import Site, open_site


# Always made, because it must be made before the event loop of the browser runs.
@pytest.fixture(scope="module", autouse=True)
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = asyncio.run(migrated(tmp_path_factory.mktemp("history")))
    return asyncio.run(with_history(folder, LOCAL_USER))


@pytest.fixture
def site_with_history(history: Path, browser: Browser, tmp_path: Path) -> Iterator[Site]:
    with open_site(browser, tmp_path, history, with_key) as site:
        yield site


def test_figures_and_verification_are_shown(site_with_history: Site) -> None:
    with site_with_history.page() as page:
        page.goto(f"{site_with_history.url}/behavior?within=month")
        expect(page.locator(".tile", has_text="Decisions")).to_contain_text("540")
        expect(page.locator(".chart")).to_have_count(4)
        outcomes, types = page.get_by_label("Outcomes"), page.get_by_label("Decision types")
        in_all = types.locator("strong").first.inner_text()
        page.locator(".plot svg").first.hover()
        # Every chart points at the same part.
        expect(page.locator(".chart .pointed")).to_have_count(
            2 + types.locator("li").count() + page.get_by_label("Intents").locator("li").count()
        )
        expect(types.locator("strong").first).not_to_have_text(in_all)
        page.get_by_role("heading", name="Behavior").hover()
        expect(types.locator("strong").first).to_have_text(in_all)
        expect(outcomes.locator(".swatch.accent")).to_have_count(1)
        expect(page.get_by_label("Outcomes").locator("li", has_text="refused").locator("strong")).not_to_have_text("0")
        expect(page.get_by_role("rowheader", name="add_task", exact=True)).to_be_visible()

        page.get_by_role("button", name="Verify the record").click()
        expect(page.get_by_label("Verification").locator(".verdict-line.same")).to_contain_text("Intact: 540 records")
        page.get_by_role("button", name="Hour").click()
        expect(page).to_have_url(f"{site_with_history.url}/behavior?within=hour")
        page.go_back()
        expect(page.get_by_role("button", name="Month")).to_have_attribute("aria-pressed", "true")


def test_without_decisions_it_says_what_to_do(site: Site) -> None:
    with site.page() as page:
        page.get_by_role("link", name="Behavior").click()
        expect(page.get_by_text("No decision in this time.")).to_be_visible()
        page.get_by_role("link", name="Chat").click()
        say(page, "show my tasks")
        page.get_by_role("link", name="Behavior").click()
        expect(page.locator(".tile", has_text="Decisions").locator("strong")).to_have_text("1")
        # One bar in an empty range would look like a figure.
        expect(page.locator(".chart", has_text="Too little for a chart")).to_have_count(4)
        expect(page.locator(".chart svg")).to_have_count(0)
        expect(page.get_by_label("Outcomes").locator("li")).to_have_text("done or answered 1")
        expect(page.get_by_label("Comparison")).to_contain_text("All decisions of this time have the same model: embedded.")


def test_models_and_constitutions_are_compared_and_lead_to_their_decisions(site_with_history: Site) -> None:
    held: list[Route] = []
    is_loaded = False
    with site_with_history.page() as page:
        page.get_by_label("Message", exact=True).wait_for()
        say(page, "show my tasks")
        page.goto(f"{site_with_history.url}/behavior?within=month")
        rows = page.get_by_label("Comparison").locator("tbody tr")
        expect(rows.locator("th")).to_have_text(["gemini", "embedded"])
        expect(rows.nth(1).locator("td").first).to_have_text("1")
        # Until those of the constitutions are loaded, the rows are those of the models.
        page.route("**/api/metrics?*constitution=*", lambda route: route.continue_() if is_loaded else held.append(route))
        page.get_by_label("Compare by").get_by_role("button", name="Constitution").click()
        expect(page.get_by_role("button", name="Constitution")).to_have_attribute("aria-pressed", "true")
        expect(rows.nth(1).get_by_role("link")).to_have_attribute("href", "/decisions?model=embedded&within=month")
        is_loaded = True
        for route in held:
            route.continue_()
        expect(rows.nth(1).get_by_role("link")).to_have_attribute("href", re.compile(r"\?constitution="))
        expect(rows).to_have_count(2)
        expect(rows.first.locator("td").first).to_have_text("540")
        rows.nth(1).get_by_role("link").click()
        expect(page.locator(".row-text")).to_have_text(["show my tasks"])
        expect(page.locator(".chip")).to_contain_text("constitution")


def test_a_verification_can_be_cancelled(site: Site) -> None:
    with site.page() as page:
        page.goto(f"{site.url}/behavior")
        # The server's answer never comes, so that there is something to cancel.
        page.route("**/api/verify", lambda _: None)
        page.get_by_role("button", name="Verify the record").click()
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_label("Verification")).to_contain_text("Cancelled.")

"""The behavior view in a browser: figures over time, drift with its p-values, and the verification of the record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from graph_agent.bootstrap import LOCAL_USER
from tests.chat.environment import migrated
from tests.page.history import BASELINE, with_history
from tests.page.screenshots import say, with_key
from tests.page.site import Site, open_site


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = asyncio.run(migrated(tmp_path_factory.mktemp("history")))
    return asyncio.run(with_history(folder, LOCAL_USER))


@pytest.fixture
def site_with_history(history: Path, browser: Browser, tmp_path: Path) -> Iterator[Site]:
    with open_site(browser, tmp_path, history, with_key) as site:
        yield site


def test_figures_drift_and_verification_are_shown(site_with_history: Site) -> None:
    with site_with_history.page() as page:
        page.goto(f"{site_with_history.url}/behavior?within=month")
        expect(page.locator(".tile", has_text="Decisions")).to_contain_text("540")
        expect(page.locator(".plot canvas")).to_have_count(4)
        expect(page.get_by_label("Outcomes").locator("li", has_text="refusal").locator("strong")).not_to_have_text("0")
        expect(page.locator(".figures th", has_text="add_task")).to_be_visible()

        drift = page.get_by_label("Drift")
        expect(drift.locator("option")).to_have_text(f"{BASELINE} (300)")
        expect(drift.locator(".verdict-line.different")).to_contain_text("Drift in 240 decisions")
        row = drift.locator("tr.different", has_text="intents: ambiguous")
        expect(row.locator("td").last).to_have_text("< 0.001")

        page.get_by_role("button", name="Verify the record").click()
        expect(page.get_by_label("Verification").locator(".verdict-line.same")).to_contain_text("Intact: 540 records")
        page.get_by_role("button", name="Hour").click()
        expect(page).to_have_url(f"{site_with_history.url}/behavior?within=hour")
        page.go_back()
        expect(page.get_by_role("button", name="Month")).to_have_attribute("aria-pressed", "true")


def test_without_decisions_and_baselines_it_says_what_to_do(site: Site) -> None:
    with site.page() as page:
        page.get_by_role("link", name="Behavior").click()
        expect(page.get_by_text("No decision in this time.")).to_be_visible()
        expect(page.get_by_label("Drift")).to_contain_text("graph-agent baseline create NAME")
        page.get_by_role("link", name="Chat").click()
        say(page, "show my tasks")
        page.get_by_role("link", name="Behavior").click()
        expect(page.locator(".tile", has_text="Decisions").locator("strong")).to_have_text("1")


def test_a_verification_can_be_cancelled(site: Site) -> None:
    with site.page() as page:
        page.goto(f"{site.url}/behavior")
        # The server's answer never comes, so that there is something to cancel.
        page.route("**/api/verify", lambda _: None)
        page.get_by_role("button", name="Verify the record").click()
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_label("Verification")).to_contain_text("Cancelled.")

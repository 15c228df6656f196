"""The banner of a stop, for users and operators, and the button that stops everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.testing import says
from tests.page.screenshots import say
from tests.page.site import Site, open_site


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    script = [says("Hello."), says("Hello again.")]
    with open_site(browser, tmp_path, template, lambda environment: environment.runtime(ScriptedAdapter(script))) as site:
        yield site


def test_an_operator_stops_everything_and_resumes_it_on_the_page(site: Site) -> None:
    with site.page(refusals=True) as page:
        say(page, "hi")
        expect(page.locator(".message.assistant").last).to_contain_text("Hello.")
        page.get_by_title("Account and help").click()
        page.get_by_label("Reason: Stop everything").fill("wrong tasks")
        page.get_by_role("button", name="Stop everything").click()
        banner = page.get_by_role("alert", name="Stopped")
        expect(banner).to_contain_text("This was stopped by the operator.")
        expect(banner).to_contain_text("wrong tasks")
        banner.get_by_label("Reason: Resume").fill("fixed")
        banner.get_by_role("button", name="Resume").click()
        expect(banner).to_have_count(0)

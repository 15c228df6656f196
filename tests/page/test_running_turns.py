"""A turn while it runs: seen live from everywhere, stopped, and followed where no stream arrives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.buffering_proxy import buffering_proxy
from tests.page.gated_model import GatedModel
from tests.page.site import Site, open_site

MODEL = GatedModel()


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Site]:
    """One server for the module, whose model waits for the test."""
    folder = tmp_path_factory.mktemp("site")
    with open_site(browser, folder, template, lambda environment: environment.runtime(MODEL)) as site:
        yield site
        MODEL.gate.release(100)


def begin(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")
    expect(page.locator("[data-state=INVOKE_LLM]")).to_have_attribute("data-condition", "running")


def test_a_new_tab_follows_the_turn_and_its_decision_is_shown_live(site: Site) -> None:
    with site.page() as page:
        begin(page, "add a task to call mom")
        MODEL.gate.release()
        expect(page.locator(".panel-title .progress-text")).to_have_text("invoke LLM · round 2 of 5")
        lists = page.context.new_page()
        lists.goto(f"{site.url}/decisions")
        lists.locator(".row").first.click()
        steps = lists.locator(".steps")
        expect(steps.locator("[data-state=EXECUTE_TOOLS]")).to_have_attribute("data-condition", "visited")
        expect(steps.locator("[data-state=INVOKE_LLM]")).to_have_attribute("data-condition", "running")
        lists.get_by_role("link", name="open", exact=True).click()
        # The second tab shows the conversation, and the turn that runs in it.
        expect(lists.locator("[data-state=EXECUTE_TOOLS]")).to_have_attribute("data-condition", "visited")
        expect(lists.locator(".working")).to_be_visible()
        MODEL.gate.release()
        for tab in (page, lists):
            expect(tab.locator(".message.assistant .receipt")).to_have_text("Add task 'call mom'")
            expect(tab.locator(".message.user")).to_have_count(1)


def test_stop_ends_a_turn_and_the_page_says_why_it_failed_and_tries_again(site: Site) -> None:
    with site.page() as page:
        begin(page, "add a task to water the plants")
        expect(page.locator(".disclosure")).to_have_text("You are talking to an AI system.")
        page.get_by_label("Message", exact=True).fill("and another one")
        page.keyboard.press("Enter")
        expect(page.locator("#composer-note")).to_contain_text("still being answered")
        expect(page.locator(".message.user")).to_have_count(1)
        page.get_by_role("button", name="Stop").click()
        cause = page.locator(".cause")
        expect(cause).to_contain_text("The turn was cancelled: the user stopped it")
        expect(page.locator(".message.assistant .content")).to_have_text("This was stopped, so I did nothing further.")
        expect(page.get_by_role("button", name="Try again")).to_be_in_viewport(ratio=1)
        expect(page.locator(".machine")).to_have_class("machine failed")
        MODEL.gate.release(2)
        cause.get_by_role("button", name="Try again").click()
        expect(page.locator(".receipt")).to_have_text("Add task 'water the plants'")
        expect(page.locator(".cause")).to_have_count(0)
        expect(page.locator(".machine")).to_have_class("machine good")
        # What was written meanwhile is still there.
        expect(page.get_by_label("Message", exact=True)).to_have_value("and another one")


def test_behind_a_proxy_that_holds_streams_back_the_answer_is_asked_for(site: Site) -> None:
    with buffering_proxy(site.url) as proxy, site.context(refusals=True) as context:
        page = context.new_page()
        page.clock.install()
        page.goto(site.link.replace(site.url, proxy))
        page.get_by_label("Message", exact=True).fill("add a task to buy bread")
        with page.expect_request(re.compile("/api/chat$")):
            with page.expect_request(re.compile("/api/chat/stream$")):
                page.keyboard.press("Enter")
            # So long the page waits for the first event.
            page.clock.fast_forward("00:10")
        MODEL.gate.release(2)
        expect(page.locator(".message.assistant .receipt")).to_have_text("Add task 'buy bread'")
        expect(page.locator("[data-state=BUILD_DECISION]")).to_have_attribute("data-condition", "visited")
        expect(page.locator(".message.user")).to_have_count(1)

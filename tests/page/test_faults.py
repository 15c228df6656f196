"""What a message or a view cannot draw takes nothing else away, and what is entered wrong gets a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.testing import says
from tests.page.screenshots import say
from tests.page.site import Site, open_site

DEEP = [">" * 800 + " quoted", "- " * 2_000 + "listed", "*a _b " * 600 + "_ *" * 600, "[" * 3_000 + "linked" + "]" * 3_000]


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    script = [*map(says, DEEP), says("All is well.")]
    with open_site(browser, tmp_path, template, lambda environment: environment.runtime(ScriptedAdapter(script))) as site:
        yield site


def test_a_reply_that_is_nested_deeply_is_shown_and_the_next_one_too(site: Site) -> None:
    with site.page() as page:
        for number, text in enumerate(DEEP):
            say(page, f"message {number}")
            last = page.locator(".message.assistant").last
            expect(last).to_contain_text(text.split()[-1].strip("*_]["), timeout=30_000)
        say(page, "and now?")
        expect(page.locator(".message.assistant").last).to_contain_text("All is well.")


def test_a_message_that_cannot_be_drawn_shows_its_text_and_the_others_are_drawn(site: Site) -> None:
    with site.page() as page:

        def spoil(route: Route) -> None:
            answer = route.fetch()
            conversation = answer.json()
            for message in conversation.get("messages", []):
                if message["role"] == "assistant" and "quoted" in message["content"]:
                    message["effects"] = 5
            route.fulfill(response=answer, json=conversation)

        say(page, "message 0")
        expect(page.locator(".message.assistant")).to_contain_text("quoted")
        page.route("**/api/conversations/*", spoil)
        page.reload()
        expect(page.locator(".message.assistant")).to_contain_text("quoted")
        say(page, "message 1")
        expect(page.locator(".message.assistant").last).to_contain_text("listed")


@pytest.mark.parametrize("sign", ['"', "(", "%", "'"])
def test_a_search_for_a_sign_alone_gets_a_sentence(site: Site, sign: str) -> None:
    with site.page(refusals=True) as page:
        page.get_by_role("link", name="Decisions").click()
        page.get_by_label("Search").fill(sign)
        expect(page.locator("main")).to_contain_text("search: write a word or a number, because signs alone are not found.")

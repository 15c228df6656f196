"""The inbox in a browser: the questions of all conversations and programs, counted in the bar and answered in one place."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.models.llm import FunctionCall
from tests.chat.environment import Environment
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings

TOP = "card => card.getBoundingClientRect().top"


def ask_to_delete(page: Page, task: str) -> None:
    """Ask in a conversation of its own."""
    page.get_by_role("link", name="New conversation").click()
    say(page, f"add a task to {task}")
    say(page, f"delete the {task} task")


def test_the_questions_of_all_conversations_are_counted_and_answered_in_the_inbox(site: Site) -> None:
    with site.page() as page:
        ask_to_delete(page, "call mom")
        expect(page.get_by_role("link", name="Inbox 1 question waits")).to_be_visible()
        ask_to_delete(page, "buy bread")
        inbox = page.get_by_role("link", name="Inbox 2 questions wait")
        inbox.click()
        expect(page).to_have_title("Inbox · graph_agent")
        cards = page.locator(".waiting > li > div")
        expect(cards.locator(".change")).to_have_text(["Delete task call mom", "Delete task buy bread"])
        top = cards.nth(1).evaluate(TOP)
        cards.first.get_by_role("button", name="Confirm").click()
        expect(cards.first.locator(".card")).to_have_attribute("data-closed", "answered")
        expect(cards.first.locator(".receipt")).to_have_text("Delete task 'call mom'")
        # Nothing moves under the pointer, which may still be pressed.
        assert abs(cards.nth(1).evaluate(TOP) - top) < 1
        cards.nth(1).get_by_role("button", name="Decline").click()
        expect(cards.nth(1).locator("h2")).to_have_text("Declined")
        expect(page.get_by_role("link", name="Inbox", exact=True)).to_be_visible()
        cards.first.get_by_role("link", name="add a task to call mom").click()
        expect(page.locator(".card.closed")).to_have_attribute("data-state", "done")


def test_a_question_answered_in_another_tab_is_closed_in_the_inbox(site: Site) -> None:
    with site.page() as page:
        page.get_by_role("link", name="Inbox").click()
        expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        other = page.context.new_page()
        other.goto(f"{site.url}/chat")
        ask_to_delete(other, "call mom")
        expect(page.get_by_role("button", name="Confirm")).to_be_visible()
        other.get_by_role("button", name="Decline").click()
        expect(page.locator(".inbox .card")).to_have_attribute("data-closed", "gone")
        expect(page.get_by_role("button", name="Confirm")).to_have_count(0)


class _Calls:
    """A runtime whose user's program has asked to delete a task, as one does at the gateway."""

    def __call__(self, environment: Environment) -> Runtime:
        runtime = environment.runtime()

        async def ask() -> None:
            await runtime.chat.call("local", [FunctionCall("add_task", {"description": "call mom"})])
            task_id = await environment.task_id("call mom")
            await runtime.chat.call("local", [FunctionCall("delete_task", {"task_id": task_id})])

        self.asking = asyncio.ensure_future(ask())
        return runtime


@pytest.fixture
def called_site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    with open_site(browser, tmp_path, template, _Calls()) as site:
        yield site


def test_the_call_of_a_program_is_answered_in_the_inbox(called_site: Site) -> None:
    with called_site.page() as page:
        page.get_by_role("link", name=re.compile("^Inbox")).click()
        expect(page.locator(".inbox .change")).to_have_text("Delete task call mom")
        page.get_by_role("button", name="Confirm").click()
        expect(page.locator(".inbox .receipt")).to_have_text("Delete task 'call mom'")


def test_a_hidden_page_asks_for_nothing(site: Site) -> None:
    with site.page() as page:
        page.get_by_role("link", name="Inbox").click()
        expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.evaluate(
            "Object.defineProperty(document, 'visibilityState', {get: () => 'hidden', configurable: true});"
            "new BroadcastChannel('graph_agent').postMessage('x'); document.dispatchEvent(new Event('visibilitychange'))"
        )
        # The browser handles the message before it answers this.
        page.evaluate("new Promise((done) => setTimeout(done))")
        assert [url for url in asked if "questions" in url] == []
        with page.expect_request(re.compile("/api/questions")):
            page.evaluate("delete document.visibilityState; document.dispatchEvent(new Event('visibilitychange'))")


class _ManyCalls:
    """A runtime whose user's program has asked to delete more tasks than a page of the inbox has."""

    def __call__(self, environment: Environment) -> Runtime:
        runtime = environment.runtime()

        async def ask() -> None:
            await runtime.chat.call("local", [FunctionCall("add_task", {"description": "call mom"})])
            task_id = await environment.task_id("call mom")
            for _ in range(51):
                await runtime.chat.call("local", [FunctionCall("delete_task", {"task_id": task_id})])

        self.asking = asyncio.ensure_future(ask())
        return runtime


def test_the_inbox_shows_the_next_page_and_what_has_ended(browser: Browser, tmp_path: Path, template: Path) -> None:
    with open_site(browser, tmp_path, template, _ManyCalls()) as site, site.page() as page:
        page.get_by_role("link", name="Inbox 51 questions wait").click()
        cards = page.locator(".waiting > li")
        expect(cards).to_have_count(50)
        page.get_by_role("button", name="More").click()
        expect(cards).to_have_count(51)
        expect(page.get_by_role("button", name="More")).to_have_count(0)
        assert findings(page) == []
        cards.last.get_by_role("button", name="Decline").click()
        expect(page.get_by_role("link", name="Inbox 50 questions wait")).to_be_visible()
        page.get_by_role("button", name="Ended").click()
        expect(page.locator(".waiting .card h2")).to_have_text("Denied")
        page.get_by_role("button", name="You asked others").click()
        expect(page.get_by_text("None of your calls waits for an approval, or did lately.")).to_be_visible()

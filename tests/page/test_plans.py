"""Plans on the page: what is left of one in force, Stop, and the form that asks about doing a change again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.mandate import JOB_NAME_RULE
from graph_agent.testing import says
from tests.api.test_mandates import AGREED, IN_PLANS
from tests.chat.test_approvals import rules
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings
from tests.page.test_small_screens import barriers
from tests.scripted_turns import calls

Opened = Callable[[list[Any]], AbstractContextManager[Site]]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path, template: Path) -> Opened:
    """A function that opens a server with a scripted model, whose additions need a yes, which plans can give."""
    asks = rules(approved="context.confirmed", name="additions need a yes")

    def open_with(script: list[Any]) -> AbstractContextManager[Site]:
        return open_site(
            browser,
            tmp_path,
            template,
            lambda made: made.runtime(ScriptedAdapter(list(script)), conditions=asks, constitution=IN_PLANS),
        )

    return open_with


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_plan_in_force_says_what_is_left_and_is_stopped(opened: Opened, scheme: str) -> None:
    with (
        opened([*AGREED]) as site,
        site.page(viewport={"width": 390, "height": 780}, color_scheme=scheme) as page,
    ):
        say(page, "add bread and milk")
        plan = page.get_by_role("region", name="Plan in force")
        expect(plan).to_have_count(0)
        page.get_by_role("button", name="Confirm").click()
        said = 'Add task: description = "bread" or "milk"; up to 2 times 1 of 2 left'
        expect(plan.get_by_role("listitem")).to_have_text(said)
        expect(plan.locator(".time")).to_contain_text("left")
        assert findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.reload()
        plan.get_by_role("button", name="Stop").click()
        expect(plan).to_have_count(0)
        expect(page.get_by_label("Message", exact=True)).to_be_visible()


def test_a_change_is_done_again_after_a_question_about_a_plan(opened: Opened) -> None:
    script = [*AGREED, says("It is there already.")]
    with (
        opened(script) as site,
        site.page(viewport={"width": 320, "height": 568}) as page,
    ):
        say(page, "add bread and milk")
        page.get_by_role("button", name="Confirm").click()
        again = page.get_by_role("button", name="Do this again")
        expect(again).to_have_count(1)
        made = page.locator(".message.assistant").last.get_by_role("link", name="Decision").get_attribute("href")
        assert findings(page) == []
        again.press("Enter")
        assert asked_by(page, lambda: page.get_by_role("button", name="Ask", exact=True).press("Enter")) == {}
        card = page.get_by_label("Confirmation").last
        # The card of the plan before has these words, too.
        expect(card.get_by_role("button", name="Confirm")).to_be_visible()
        expect(card).to_contain_text('Add task: description = "bread"')
        page.reload()
        expect(card.get_by_role("button", name="Confirm")).to_be_visible()
        asked = page.locator(".message.assistant").last.get_by_role("link", name="Decision").get_attribute("href")
        card.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("region", name="Plan in force").get_by_role("heading")).to_have_count(2)
        page.goto(f"{site.url}{asked}")
        expect(page.locator(f"dd a[href='{made}']")).to_be_visible()


def asked_by(page: Page, act: Callable[[], None]) -> Any:
    """Return the body with which an act on the page asks about a plan."""
    with page.expect_request(lambda one: one.method == "POST" and one.url.endswith("/mandate")) as sent:
        act()
    return sent.value.post_data_json


@pytest.fixture
def twice(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    """A server whose model adds two tasks in one turn, which plans can do again."""
    script = [calls(("add_task", {"description": "bread"}), ("add_task", {"description": "milk"})), says("Added.")]
    with open_site(
        browser, tmp_path, template, lambda made: made.runtime(ScriptedAdapter(script), constitution=IN_PLANS)
    ) as site:
        yield site


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_user_narrows_a_plan_with_the_keyboard(twice: Site, scheme: str) -> None:
    with twice.page(viewport={"width": 390, "height": 780}, color_scheme=scheme) as page:
        say(page, "add bread and milk")
        again = page.get_by_role("button", name="Do this again")
        form = page.get_by_role("form", name="Do this again")
        for leave in ("Escape", "Cancel", "Enter"):
            again.press("Enter")
            expect(form).to_be_focused()
            expect(again).to_have_attribute("aria-expanded", "true")
            expect(form.get_by_role("checkbox")).to_have_count(2)
            if leave == "Cancel":
                form.get_by_role("button", name=leave).press("Enter")
            else:
                (form if leave == "Escape" else again).press(leave)
            expect(again).to_be_focused()
            expect(form).to_have_count(0)
        again.press("Enter")
        lines = form.get_by_role("group", name="Plan, at most").get_by_role("checkbox")
        expect(lines.nth(1)).to_have_accessible_name('Add task: description = "milk"')
        assert barriers(page) == []
        page.keyboard.press("Tab")
        expect(lines.first).to_be_focused()
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        expect(form.get_by_role("button", name="Ask")).to_be_disabled()
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        expect(form.get_by_label("Minutes, at most 60")).to_be_focused()
        page.keyboard.type("5")
        body = asked_by(page, lambda: page.keyboard.press("Enter"))
        milk = {"tool": "add_task", "arguments": {"description": {"is": ["milk"]}}, "times": 1}
        assert body == {"lines": [milk], "minutes": 5}
        card = page.get_by_label("Confirmation")
        expect(card).to_be_focused()
        expect(card).to_contain_text('Plan, at most:\n1. Add task: description = "milk"\nFor 5 minutes')
        expect(form).to_have_count(0)


def test_the_user_asks_for_a_standing_plan_and_a_refusal_is_shown_as_it_is(twice: Site) -> None:
    with twice.context(refusals=True, viewport={"width": 390, "height": 780}) as context:
        page = context.new_page()
        page.goto(twice.link)
        say(page, "add bread and milk")
        page.get_by_role("button", name="Do this again").click()
        form = page.get_by_role("form", name="Do this again")
        ask = form.get_by_role("button", name="Ask")
        form.get_by_role("checkbox").first.uncheck()
        name = form.get_by_label("For runs of the job")
        name.fill("two words")
        name.press("Tab")
        expect(form.get_by_role("alert")).to_have_text(f"job: the name {JOB_NAME_RULE}.")
        expect(ask).to_be_disabled()
        name.fill("groceries")
        name.press("Tab")
        expect(ask).to_be_focused()
        days = form.get_by_label("Days, at most 90")
        expect(days).to_have_value("30")
        expect(form.get_by_role("alert")).to_have_count(0)
        # What was not ticked is not ticked in the plan for the job.
        expect(form.get_by_role("checkbox").first).not_to_be_checked()
        days.fill("7")
        runs = form.get_by_label("Runs, at most 90")
        runs.fill("8")
        ask.click()
        expect(form.get_by_role("alert")).to_have_text("This is no plan: a plan has at most one run a day, here 7.")
        runs.fill("2")
        assert barriers(page) == []
        body = asked_by(page, ask.click)
        assert (body.keys(), body["minutes"], body["runs"]) == ({"lines", "job", "minutes", "runs"}, 7 * 24 * 60, 2)
        card = page.get_by_label("Confirmation")
        expect(card).to_contain_text(
            'Standing plan, in each of at most 2 runs of the job "groceries", at most:\n'
            '1. Add task: description = "milk"\nFor 7 days'
        )
        card.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("heading", name="Standing plan for the job groceries")).to_be_visible()


def test_a_standing_plan_names_its_job_and_its_question_waits_in_the_inbox(opened: Opened) -> None:
    script = [*AGREED, calls(("add_task", {"description": "milk"}))]
    with (
        opened(script) as site,
        site.page(viewport={"width": 390, "height": 780}) as page,
    ):
        say(page, "add bread and milk")
        page.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("button", name="Do this again")).to_have_count(1)
        made = page.locator(".message.assistant").last.get_by_role("link", name="Decision").get_attribute("href") or ""
        page.evaluate(
            """async (decision) => {
              await fetch(`/api/decisions/${decision}/mandate`, { method: "POST",
                headers: { "Content-Type": "application/json" }, body: JSON.stringify({ job: "groceries" }) });
            }""",
            made.rpartition("/")[2],
        )
        page.reload()
        page.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("heading", name="Standing plan for the job groceries")).to_be_visible()
        expect(page.get_by_role("region", name="Plan in force").locator(".time").first).to_contain_text("days left")
        expect(page.get_by_text("30 of 30 runs left")).to_be_visible()
        page.evaluate(
            """async () => {
              await fetch("/api/chat", { method: "POST", headers: { "Content-Type": "application/json" },
                body: JSON.stringify({ content: "add what is missing", job: "groceries" }) });
            }"""
        )
        page.goto(f"{site.url}/inbox")
        expect(page.get_by_text("milk").first).to_be_visible()

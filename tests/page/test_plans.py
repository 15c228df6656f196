"""The plan in force above the field: what is left of it, until when, and Stop."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.testing import says
from tests.api.test_mandates import AGREED, IN_PLANS
from tests.chat.test_approvals import rules
from tests.page.screenshots import say
from tests.page.site import open_site
from tests.page.test_accessibility import findings
from tests.scripted_turns import calls


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_plan_in_force_says_what_is_left_and_is_stopped(
    browser: Browser, tmp_path: Path, template: Path, scheme: str
) -> None:
    asks = rules(approved="context.confirmed", name="additions need a yes")
    with (
        open_site(
            browser,
            tmp_path,
            template,
            lambda made: made.runtime(ScriptedAdapter(list(AGREED)), conditions=asks, constitution=IN_PLANS),
        ) as site,
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


def test_a_change_is_done_again_after_a_question_about_a_plan(browser: Browser, tmp_path: Path, template: Path) -> None:
    asks = rules(approved="context.confirmed", name="additions need a yes")
    script = [*AGREED, says("It is there already.")]
    with (
        open_site(
            browser,
            tmp_path,
            template,
            lambda made: made.runtime(ScriptedAdapter(script), conditions=asks, constitution=IN_PLANS),
        ) as site,
        site.page(viewport={"width": 320, "height": 568}) as page,
    ):
        say(page, "add bread and milk")
        page.get_by_role("button", name="Confirm").click()
        again = page.get_by_role("button", name="Do this again")
        expect(again).to_have_count(1)
        made = page.locator(".message.assistant").last.get_by_role("link", name="Decision").get_attribute("href")
        assert findings(page) == []
        again.press("Enter")
        card = page.get_by_label("Confirmation").last
        expect(card).to_contain_text('Add task: description = "bread"')
        page.reload()
        asked = page.locator(".message.assistant").last.get_by_role("link", name="Decision").get_attribute("href")
        card.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("region", name="Plan in force").get_by_role("heading")).to_have_count(2)
        page.goto(f"{site.url}{asked}")
        expect(page.locator(f"dd a[href='{made}']")).to_be_visible()


def test_a_standing_plan_names_its_job_and_its_question_waits_in_the_inbox(
    browser: Browser, tmp_path: Path, template: Path
) -> None:
    asks = rules(approved="context.confirmed", name="additions need a yes")
    script = [*AGREED, calls(("add_task", {"description": "milk"}))]
    with (
        open_site(
            browser,
            tmp_path,
            template,
            lambda made: made.runtime(ScriptedAdapter(script), conditions=asks, constitution=IN_PLANS),
        ) as site,
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
        page.evaluate(
            """async () => {
              await fetch("/api/chat", { method: "POST", headers: { "Content-Type": "application/json" },
                body: JSON.stringify({ content: "add what is missing", job: "groceries" }) });
            }"""
        )
        page.goto(f"{site.url}/inbox")
        expect(page.get_by_text("milk").first).to_be_visible()

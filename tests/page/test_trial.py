"""Rules in the shadow in a browser: the switch of the lab, what they would have changed, and the decision and its figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from graph_agent.policy.cedar.conditions import ConditionsFile
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_small_screens import barriers

RULES = """// The rules of the tests; @shadow in a comment is none.
permit (principal, action, resource);
@id("no milk") @shadow // for a week
forbid (principal, action == Action::"add_task", resource) when { context.arguments.description like "*milk; @shadow*" };
@id("no rice") forbid (principal, action == Action::"add_task", resource)
when { context.arguments.description like "*rice*" }; @shadow @id("no mom") forbid (principal, action == Action::"add_task",
resource) when { context.arguments.description like "*mom*" };
"""


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    """A server with three rules, two of them in the shadow; one begins in the line in which another ends."""
    make = ConditionsFile(RULES)
    with open_site(browser, tmp_path, template, lambda environment: environment.runtime(conditions=make)) as site:
        yield site


def open_lab(page: Page) -> None:
    page.get_by_role("link", name="Lab", exact=True).click()
    page.get_by_label("add_task: verdict").wait_for()


def test_the_switch_puts_a_rule_in_the_shadow_and_the_trial_lists_the_decisions(site: Site) -> None:
    with site.page() as page:
        for text in ("add a task to call mom", "add a task to buy rice", "show my tasks"):
            say(page, text)
        open_lab(page)
        trial = page.get_by_role("region", name="Rules in the shadow")
        mom = trial.get_by_role("button", name="no mom")
        expect(mom).to_have_text("no mom would have refused 1 call and asked about 0, in 1 of 3 decisions")
        expect(trial.get_by_role("button", name="no milk")).to_have_text("no milk would have changed nothing in 3 decisions")
        expect(trial).to_contain_text("by the verdicts that the record has")

        rice = page.get_by_role("switch", name="Shadow: no rice")
        expect(rice).to_have_attribute("aria-checked", "false")
        rice.focus()
        page.keyboard.press("Space")
        expect(rice).to_have_attribute("aria-checked", "true")
        expect(page.locator(".flow-sentence")).to_have_text("refused → runs: 1, same: 2")
        page.get_by_role("button", name="Conditions").click()
        rules = page.get_by_label("Conditions", exact=True)
        expect(rules).to_have_value(RULES.replace('@id("no rice")', '@shadow @id("no rice")'))
        expect(trial.get_by_role("button", name="no mom")).to_contain_text("would have refused 1 call")

        page.get_by_role("switch", name="Shadow: no mom").click()
        expect(page.locator(".flow-sentence")).to_contain_text("runs → refused: 1")
        expect(rules).to_have_value(re.compile(r'\}; @id\("no mom"\) forbid'))
        expect(trial.get_by_role("button", name="no mom")).to_have_count(0)
        page.get_by_role("switch", name="Shadow: no mom").click()
        page.get_by_role("switch", name="Shadow: no rice").click()
        expect(page.get_by_role("button", name="Undo the changes")).to_have_count(0)
        expect(rules).to_have_value(RULES)

        mom.focus()
        page.keyboard.press("Enter")
        expect(mom).to_have_attribute("aria-expanded", "true")
        expect(trial).to_contain_text("By tool: add_task 1")
        expect(trial).to_contain_text("By user: local 1")
        listed = trial.get_by_label("Decisions of no mom").get_by_role("link")
        expect(listed).to_contain_text(['add a task to call momwould have refused itadd_task {"description":"call mom"}'])
        listed.click()
        expect(page).to_have_url(re.compile("/decisions/"))
        shadow = page.get_by_role("region", name="In the shadow")
        expect(shadow.get_by_role("listitem")).to_have_text(["Add task: 'no mom' would have refused it."])

        page.get_by_role("link", name="Behavior").click()
        expect(page.get_by_role("row", name="no mom")).to_have_text("no mom100")
        expect(page.get_by_role("columnheader", name="Unknown")).to_be_visible()
        expect(page.get_by_role("row", name=re.compile("add_task"))).to_contain_text("100 %0")


def test_an_edit_that_cannot_be_used_leaves_the_switch_of_each_rule_at_its_own(site: Site) -> None:
    with site.page() as page:
        open_lab(page)
        page.get_by_role("button", name="Conditions").click()
        rules = page.get_by_label("Conditions", exact=True)
        rules.fill("forbid (principal, action);\n" + RULES.replace("*mom*", "*dad*"))
        expect(page.get_by_role("alert")).to_be_visible()
        # The rows are those of the rules in force: one of these rules is not in the text any more.
        expect(page.get_by_role("switch", name="Shadow: no mom")).to_be_disabled()
        page.get_by_role("switch", name="Shadow: no milk").click()
        expect(rules).to_have_value(re.compile(r'@id\("no milk"\) // for a week'))
        expect(rules).to_have_value(re.compile(r'@shadow @id\("no mom"\)'))
        page.get_by_role("button", name="Undo the changes").click()
        page.get_by_role("button", name="Remove the condition no rice").click()
        expect(rules).to_have_value(re.compile(r'\n@shadow @id\("no mom"\)'))
        expect(rules).not_to_have_value(re.compile("no rice"))
        expect(page.get_by_role("switch", name="Shadow: no milk")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_rules_in_the_shadow_are_no_barrier_and_fit_a_small_screen(site: Site, scheme: str) -> None:
    with site.page(color_scheme=scheme, reduced_motion="reduce", viewport={"width": 320, "height": 568}) as page:
        say(page, "add a task to call mom")
        page.goto(f"{site.url}/lab")
        page.get_by_label("add_task: verdict").wait_for()
        page.get_by_role("region", name="Rules in the shadow").get_by_role("button", name="no mom").click()
        assert barriers(page) == []
        page.get_by_label("Decisions of no mom").get_by_role("link").click()
        page.get_by_role("region", name="In the shadow").wait_for()
        assert barriers(page) == []
        page.goto(f"{site.url}/behavior")
        page.get_by_role("row", name="no mom").wait_for()
        assert barriers(page) == []


def test_each_write_says_what_is_known_after_a_lost_answer(site: Site) -> None:
    with site.page() as page:
        open_lab(page)
        row = page.locator(".rule-rows > li")
        expect(row.filter(has_text="delete_task").locator(".rule-name")).to_have_text("delete_taskAfter a lost answer: ledger")
        expect(row.filter(has_text="list_tasks").locator(".rule-name")).to_have_text("list_tasks")

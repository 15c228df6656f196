"""The policy lab in a browser: rules as rows and texts, what they change, one decision under them, and the files to keep."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from graph_agent.validation.fixtures import load_fixtures
from tests.page.screenshots import ASKS_BEFORE_ADDING, edit_constitution, say
from tests.page.site import Site


def open_lab(page: Page) -> None:
    page.get_by_role("link", name="Lab", exact=True).click()
    page.get_by_label("add_task: verdict").wait_for()


def test_a_refused_call_is_explained_its_rule_tightened_and_the_result_saved(site: Site, tmp_path: Path) -> None:
    with site.page() as page:
        for text in ("bread", "milk", "rice", "tea", "salt", "oil"):
            say(page, f"add a task to buy {text}")
        say(page, "mark all as done")
        actions = 0

        def click(name: str, *, role: Literal["link", "button"] = "link") -> None:
            nonlocal actions
            actions += 1
            page.get_by_role(role, name=name).first.click()

        click("Decisions")
        click("mark all as done")
        expect(page.get_by_role("button", name="refused at limit per message this can be done at most 5 times")).to_be_visible()
        expect(page.get_by_text("At most 5 per message").first).to_be_visible()
        click("Try other rules")
        expect(page.locator(".verdict-line.same")).to_contain_text("Identical")
        page.get_by_label("complete_task: calls per message").fill("2")
        actions += 1
        page.get_by_label("complete_task: calls per message").press("Enter")
        actions += 1
        expect(page.locator(".verdict-line.different")).to_contain_text("complete_task would have been refused")
        click("Policy lab")
        expect(page.locator(".flow-sentence")).to_have_text("runs → refused: 1, same: 6")
        expect(page.get_by_label("Every possible call").locator(".verdict-line")).to_have_text("Nothing else becomes possible.")
        click("runs → refused", role="button")
        click("mark all as done")
        expect(page.locator(".verdict-line.different")).to_be_visible()
        with page.expect_download() as saved:
            click("Save for an auditor", role="button")
        assert actions <= 15
        file = tmp_path / "decision.html"
        saved.value.save_as(file)
        with site.context() as elsewhere:
            report = elsewhere.new_page()
            report.goto(file.as_uri())
            expect(report.locator("#verdict")).to_have_text("Signed by the log, with this key; no witness has seen it")
            expect(report.locator(".film-words")).to_contain_text("mark all as done")
            # Three calls are refused by one rule, which is named once.
            headline = "complete_task would have been refused: at most 2 per message (constitution). What the model"
            expect(report.locator(".verdict-line.different")).to_contain_text(headline)
            report.get_by_text("the other constitution", exact=True).click()
            expect(report.locator(".difference pre")).to_contain_text("(at most 2 per message)")


def test_rows_and_texts_are_in_step(site: Site) -> None:
    with site.page() as page:
        open_lab(page)
        text = page.get_by_label("Constitution", exact=True)
        in_force = text.input_value()
        delete, update = page.get_by_label("delete_task: verdict"), page.get_by_label("update_task: verdict")
        expect(delete).to_have_value("asks")
        expect(page.get_by_label("update_task: calls per message")).to_have_value("3")

        delete.select_option("refused")
        update.select_option("asks")
        page.get_by_label("update_task: calls per message").fill("1")
        page.get_by_label("update_task: calls per message").press("Enter")
        sentence = '"Rename task[ {preview or task_id}][ to {description}]"'
        line = f"- update_task: {sentence} (requires confirmation) (at most 1 per message)"
        expect(text).to_have_value(re.compile(re.escape(line)))
        expect(text).not_to_have_value(re.compile("delete_task:"))
        delete.select_option("asks")
        update.select_option("runs")
        page.get_by_label("update_task: calls per message").fill("3")
        page.get_by_label("update_task: calls per message").press("Enter")
        expect(text).to_have_value(in_force)
        expect(page.get_by_role("button", name="Undo the changes")).to_have_count(0)

        edit_constitution(page, *ASKS_BEFORE_ADDING)
        expect(page.get_by_label("add_task: verdict")).to_have_value("asks")
        page.get_by_label("add_task: add a condition").select_option("not at night")
        expect(page.locator(".conditions li")).to_contain_text("not at night")
        page.get_by_role("button", name="Conditions").click()
        rules = page.get_by_label("Conditions", exact=True)
        expect(rules).to_have_value(re.compile('Action::"add_task", resource'))
        page.get_by_role("button", name="Remove the condition").click()
        expect(page.locator(".conditions li")).to_have_count(0)
        expect(rules).not_to_have_value(re.compile("add_task"))


def test_a_text_that_cannot_be_used_says_why_and_nothing_is_lost(site: Site) -> None:
    with site.page() as page:
        open_lab(page)
        edit_constitution(page, *ASKS_BEFORE_ADDING)
        edit_constitution(page, "## Available Tools", "## Tools")
        expect(page.get_by_role("alert")).to_contain_text("there is no section '## Available Tools'")
        expect(page.get_by_label("Constitution", exact=True)).to_have_value(re.compile("requires confirmation"))
        edit_constitution(page, "## Tools", "## Available Tools")
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_label("add_task: verdict")).to_have_value("asks")


def test_the_flow_of_the_last_decisions_is_drawn_and_leads_to_them(site: Site, tmp_path: Path) -> None:
    with site.page() as page:
        for text in ("add a task to call mom", "show my tasks", "add a task to buy milk"):
            say(page, text)
        open_lab(page)
        page.get_by_label("add_task: verdict").select_option("asks")
        page.get_by_label("list_tasks: verdict").select_option("refused")
        expect(page.locator(".flow-sentence")).to_have_text("runs → asks: 2, → refused: 1, same: 0")
        expect(page.locator(".flow .band")).to_have_count(2)
        page.get_by_role("button", name="runs → asks").click()
        expect(page.locator(".what-if .row-text")).to_have_text(["add a task to buy milk", "add a task to call mom"])
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save as test set").click()
        cases = tmp_path / "test-set.yaml"
        saved.value.save_as(cases)
        inputs = [[turn.input for turn in case.turns][-1] for case in load_fixtures(cases)]
        assert inputs == ["add a task to buy milk", "add a task to call mom"]
        page.locator(".what-if").first.click()
        expect(page.locator("tr.different", has_text="Type").locator("td").last).to_have_text("asked first")
        page.go_back()
        expect(page.locator(".flow-sentence")).to_have_text("runs → asks: 2, → refused: 1, same: 0")


def test_the_edited_files_are_downloaded(site: Site) -> None:
    with site.page() as page:
        open_lab(page)
        expect(page.get_by_role("button", name=re.compile("^Download"))).to_have_count(0)
        page.get_by_label("add_task: verdict").select_option("asks")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download constitution.md").click()
        assert saved.value.suggested_filename == "constitution.md"
        assert ASKS_BEFORE_ADDING[1] in saved.value.path().read_text()


def test_a_link_carries_the_edit(site: Site) -> None:
    with site.page() as page:
        say(page, "add a task to call mom")
        open_lab(page)
        page.get_by_label("add_task: verdict").select_option("refused")
        page.wait_for_url("**/lab#edit=*")
        expect(page.locator(".flow-sentence")).to_have_text("runs → refused: 1, same: 0")
        other_tab = page.context.new_page()
        other_tab.goto(page.url)
        expect(other_tab.get_by_label("add_task: verdict")).to_have_value("refused")
        expect(other_tab.locator(".flow-sentence")).to_have_text("runs → refused: 1, same: 0")
        other_tab.goto(f"{site.url}/chat")
        other_tab.goto(f"{site.url}/lab#edit=broken")
        expect(other_tab.get_by_role("alert")).to_contain_text("The edit in the address cannot be read")


def test_what_becomes_possible_and_which_promises_hold_is_said_for_every_call(site: Site) -> None:
    with site.page() as page:
        open_lab(page)
        page.get_by_label("delete_task: verdict").select_option("runs")
        analysis = page.get_by_label("Every possible call")
        expect(analysis.locator(".verdict-line.different")).to_have_text("More becomes possible.")
        expect(analysis.locator(".looser")).to_contain_text('newly possible without a yes delete_task(task_id="")')
        page.get_by_role("button", name="Promises").click()
        promise = 'forbid (principal, action == Action::"delete_task", resource) unless { context.confirmed };'
        page.get_by_label("Promises", exact=True).fill(f'@id("deleting is confirmed")\n{promise}')
        expect(analysis.locator("li", has_text="deleting is confirmed")).to_contain_text("fails")
        page.get_by_label("delete_task: verdict").select_option("asks")
        expect(analysis.locator("li", has_text="deleting is confirmed")).to_contain_text("holds")
        expect(analysis.locator(".verdict-line.same")).to_have_text("Nothing else becomes possible.")


def test_a_change_that_was_not_compared_is_not_shown_as_nothing(site: Site) -> None:
    with site.page() as page:
        open_lab(page)
        page.get_by_role("button", name="Conditions").click()
        rule = "permit (principal, action, resource) when { context.used.day == context.used.hour };"
        page.get_by_label("Conditions", exact=True).fill(rule)
        analysis = page.get_by_label("Every possible call")
        verdict = "Not everything was compared, so more may become possible."
        expect(analysis.locator(".verdict-line.different")).to_have_text(verdict)
        expect(analysis.locator("li.unknown", has_text="add_task")).to_contain_text("not compared")


def test_a_replay_of_many_can_be_cancelled(site: Site) -> None:
    with site.page() as page:
        say(page, "show my tasks")
        # The server's answer never comes, so that there is something to cancel.
        page.route("**/api/replay/flows", lambda _: None)
        page.get_by_role("link", name="Lab", exact=True).click()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator(".flow-sentence")).to_contain_text("Cancelled")
        page.unroute("**/api/replay/flows")
        page.get_by_role("button", name="Run again").click()
        expect(page.locator(".flow-sentence")).to_have_text("same: 1")


@pytest.mark.parametrize("size", [(390, 780), (1024, 760)])
def test_the_result_is_in_sight_where_a_row_is_edited(site: Site, size: tuple[int, int]) -> None:
    with site.page(viewport={"width": size[0], "height": size[1]}) as page:
        say(page, "add a task to call mom")
        open_lab(page)
        page.get_by_label("add_task: verdict").select_option("refused")
        shown = page.locator(".flow-sentence:visible, .lab-result:visible", has_text="runs → refused: 1")
        expect(shown.last).to_be_in_viewport(ratio=1)


def test_a_decision_runs_again_and_another_constitution_changes_its_outcome(site: Site) -> None:
    with site.page() as page:
        say(page, "add a task to call mom")
        page.locator(".message footer a").last.click()
        page.get_by_role("link", name="Try other rules").click()
        expect(page.locator(".verdict-line.same")).to_contain_text("Identical")
        expect(page.locator(".state-rows > li.different")).to_have_count(0)
        page.locator(".state-rows button", has_text="execute tools").click()
        expect(page.locator(".state-changes")).to_contain_text("call mom")

        edit_constitution(page, *ASKS_BEFORE_ADDING)
        expect(page.locator(".verdict-line.different")).to_be_visible()
        expect(page.locator(".changed-lines .added")).to_contain_text("(requires confirmation)")
        expect(page.locator("tr.different", has_text="Type").locator("td").last).to_have_text("asked first")
        expect(page.locator(".state-rows > li.different").first).to_contain_text("execute tools")
        # The address has the edit.
        page.wait_for_url("**#edit=*")
        page.reload()
        expect(page.locator(".verdict-line.different")).to_be_visible()


def test_a_call_that_another_constitution_refuses_is_the_headline(site: Site) -> None:
    headline = "add_task would have been refused: not in the constitution. What the model would have said then is unknown."
    with site.page() as page:
        say(page, "add a task to call mom")
        page.locator(".message footer a").last.click()
        page.get_by_role("link", name="Try other rules").click()
        edit_constitution(page, '- add_task: "Add task[ {description}]"\n', "")
        expect(page.locator(".verdict-line.different")).to_have_text(headline)
        expect(page.locator(".state-rows > li.different").first).to_contain_text("1 call refused")
        differences = page.locator(".block", has=page.get_by_role("heading", name="Differences")).locator(
            "tr", has_text="calls[0]"
        )
        expect(differences.locator("td").last).to_have_text(
            'add_task {"description":"call mom"}: refused, there is no such tool'
        )


def test_a_decision_becomes_a_test_case_an_export_and_a_file_for_an_auditor(site: Site, tmp_path: Path) -> None:
    with site.page(permissions=["clipboard-read", "clipboard-write"]) as page:
        say(page, "add a task to <img src=x onerror=alert(1)>")
        page.locator(".message footer a").last.click()
        page.get_by_role("link", name="Try other rules").click()
        expect(page.locator(".verdict-line.same")).to_be_visible()

        page.get_by_role("button", name="Copy as test case").click()
        expect(page.get_by_text("Copied.")).to_be_visible()
        case = tmp_path / "case.yaml"
        case.write_text(page.evaluate("navigator.clipboard.readText()"))
        assert [turn.input for turn in load_fixtures(case)[0].turns] == ["add a task to <img src=x onerror=alert(1)>"]

        with page.expect_download() as exported:
            page.get_by_role("button", name="Export").click()
        assert '"type":"decision"' in exported.value.path().read_text()

        with page.expect_download() as saved:
            page.get_by_role("button", name="Save for an auditor").click()
        file = tmp_path / "decision.html"
        saved.value.save_as(file)
        # The file is opened in another profile: nothing of the server is there.
        with site.context() as elsewhere:
            report = elsewhere.new_page()
            report.goto(file.as_uri())
            expect(report.locator(".film-words strong")).to_have_text("add a task to <img src=x onerror=alert(1)>")
            expect(report.locator("img")).to_have_count(0)
            expect(report.locator(".difference")).to_have_count(0)
            report.get_by_text("The constitution and prompt", exact=True).click()
            expect(report.get_by_text("You are a helpful task management assistant")).to_be_visible()

"""The replay view in a browser: the same decision, another constitution, many decisions, and the file for an auditor."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from graph_agent.validation.fixtures import load_fixtures
from tests.page.screenshots import ASKS_BEFORE_ADDING, edit_constitution, say
from tests.page.site import Site


def test_a_decision_runs_again_and_another_constitution_changes_its_outcome(site: Site) -> None:
    with site.page() as page:
        say(page, "add a task to call mom")
        page.locator(".message footer a").last.click()
        page.locator(".view-title").get_by_role("link", name="Replay").click()
        expect(page.locator(".verdict-line.same")).to_contain_text("Identical")
        expect(page.locator(".state-rows > li.different")).to_have_count(0)
        page.locator(".state-rows button", has_text="execute tools").click()
        expect(page.locator(".state-changes")).to_contain_text("call mom")

        edit_constitution(page, *ASKS_BEFORE_ADDING)
        expect(page.locator(".verdict-line.different")).to_be_visible()
        expect(page.locator(".changed-lines .added")).to_contain_text("(requires confirmation)")
        expect(page.locator("tr.different", has_text="Type").locator("td").last).to_have_text("request confirmation")
        expect(page.locator(".state-rows > li.different").first).to_contain_text("execute tools")
        # The edit stays in the tab, also when it is reloaded; the address of a replay can be shared.
        page.reload()
        expect(page.locator(".verdict-line.different")).to_be_visible()
        other_tab = page.context.new_page()
        other_tab.goto(page.url)
        expect(other_tab.locator(".verdict-line.same")).to_contain_text("Identical")


def test_a_call_that_another_constitution_refuses_is_the_headline(site: Site) -> None:
    headline = "add_task would have been refused: not in the constitution. What the model would have said then is unknown."
    with site.page() as page:
        say(page, "add a task to call mom")
        page.locator(".message footer a").last.click()
        page.locator(".view-title").get_by_role("link", name="Replay").click()
        edit_constitution(page, "- add_task: Create new tasks\n", "")
        expect(page.locator(".verdict-line.different")).to_have_text(headline)
        expect(page.locator(".state-rows > li.different").first).to_contain_text("1 call refused")
        differences = page.locator(".block", has=page.get_by_role("heading", name="Differences")).locator(
            "tr", has_text="calls[0]"
        )
        expect(differences.locator("td").last).to_have_text(
            'add_task {"description":"call mom"}: refused, there is no such tool'
        )
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".batch-results [role=status]")).to_have_text("1 different · 0 the same")
        expect(page.locator(".what-if .verdict")).to_have_text("refused: add_task")


def test_the_last_decisions_are_compared_and_those_that_differ_are_listed(site: Site) -> None:
    with site.page() as page:
        for text in ("add a task to call mom", "show my tasks", "add a task to buy milk"):
            say(page, text)
        page.get_by_role("link", name="Replay", exact=True).click()
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".batch-results [role=status]")).to_have_text("0 different · 3 the same")
        edit_constitution(page, *ASKS_BEFORE_ADDING)
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".batch-results [role=status]")).to_have_text("2 different · 1 the same")
        expect(page.locator(".what-if .row-text")).to_have_text(["add a task to buy milk", "add a task to call mom"])
        page.locator(".what-if").first.click()
        expect(page.locator(".verdict-line.different")).to_be_visible()
        page.go_back()
        expect(page.locator(".what-if")).to_have_count(2)


def test_an_invalid_constitution_says_what_is_wrong(site: Site) -> None:
    with site.page(refusals=True) as page:
        say(page, "show my tasks")
        page.locator(".message footer a").last.click()
        page.locator(".view-title").get_by_role("link", name="Replay").click()
        expect(page.locator(".verdict-line.same")).to_be_visible()
        edit_constitution(page, "## Available Tools", "## Tools")
        expect(page.get_by_role("alert")).to_contain_text("there is no section '## Available Tools'")
        page.get_by_role("button", name="Undo the changes").click()
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_decision_becomes_a_test_case_an_export_and_a_file_for_an_auditor(site: Site, tmp_path: Path) -> None:
    with site.page(permissions=["clipboard-read", "clipboard-write"]) as page:
        say(page, "add a task to <img src=x onerror=alert(1)>")
        page.locator(".message footer a").last.click()
        page.locator(".view-title").get_by_role("link", name="Replay").click()
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
        html = file.read_text()
        assert "<script" not in html
        assert re.findall(r"(?:src|href)=", html.replace("src=x", "")) == []
        # The file is opened in another profile: nothing of the server is there.
        with site.context() as elsewhere:
            report = elsewhere.new_page()
            report.goto(file.as_uri())
            expect(report.get_by_role("heading", level=1).first).to_have_text("add a task to <img src=x onerror=alert(1)>")
            expect(report.locator("img")).to_have_count(0)
            expect(report.locator(".verdict-line.same")).to_be_visible()
            expect(report.get_by_text("You are a helpful task management assistant").first).to_be_visible()


def test_a_replay_of_many_can_be_cancelled(site: Site) -> None:
    with site.page() as page:
        say(page, "show my tasks")
        page.goto(f"{site.url}/replay")
        # The server's answer never comes, so that there is something to cancel.
        page.route("**/api/replay", lambda _: None)
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator(".batch-results [role=status]")).to_contain_text("Cancelled")
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()

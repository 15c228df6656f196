"""The list of decisions and one decision in a browser."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, expect

from graph_agent.api.launch_session import LaunchSession
from graph_agent.api.static_page import read_page
from graph_agent.bootstrap import LOCAL_USER
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.testing import says
from tests.api.live_server import live_server
from tests.chat.environment import Environment
from tests.page.history import with_decisions
from tests.page.screenshots import say, with_key
from tests.page.site import Site, open_site
from tests.scripted_turns import calls
from tests.serving import free_ports


def test_filters_are_in_the_address(site: Site) -> None:
    with site.page() as page:
        for text in ("add a task to call mom", "what's the weather?", "show my tasks"):
            say(page, text)
        page.get_by_role("link", name="Decisions", exact=True).click()
        rows = page.locator(".row-text")
        expect(rows).to_have_text(["show my tasks", "what's the weather?", "add a task to call mom"])
        page.get_by_label("Outcome").select_option("REFUSAL")
        expect(rows).to_have_text(["what's the weather?"])
        expect(page).to_have_url(re.compile(r"/decisions\?outcome=REFUSAL$"))
        page.reload()
        expect(rows).to_have_text(["what's the weather?"])
        page.get_by_label("Intent").select_option("CREATE_TASK")
        expect(page.get_by_text("No decision matches these filters.")).to_be_visible()
        page.go_back()
        expect(rows).to_have_text(["what's the weather?"])
        page.go_back()
        expect(rows).to_have_count(3)


def test_decisions_are_found_by_their_words_and_by_a_period_of_ones_own(site: Site) -> None:
    with site.page() as page:
        for text in ("add a task to call mom", "show my tasks"):
            say(page, text)
        page.get_by_role("link", name="Decisions", exact=True).click()
        rows, search = page.locator(".row-text"), page.get_by_label("Search")
        expect(page.locator(".row-heads span")).to_have_text(
            ["Time", "Message", "User", "Tools", "Outcome", "Tokens", "Duration"]
        )
        expect(page.locator(".row .row-tools")).to_have_text(["list_tasks", "add_task"])
        # The names of the record are shown on hover: also a list is a "task completed".
        outcomes = page.locator(".row .outcome")
        expect(outcomes).to_have_text(["looked up", "done"])
        expect(outcomes.first).to_have_attribute("title", re.compile(r"^SUCCESS:TASK_COMPLETED · INVOKE_TOOL\n"))
        search.press_sequentially("add mom")
        expect(rows).to_have_text(["add a task to call mom"])
        expect(page).to_have_url(re.compile(r"/decisions\?search=add\+mom$"))
        page.reload()
        expect(search).to_have_value("add mom")
        search.fill("nothing like it")
        expect(page.get_by_text("No decision matches these filters.")).to_be_visible()
        search.fill("")
        expect(rows).to_have_count(2)
        page.get_by_label("Within").select_option("custom")
        page.get_by_label("From").fill("2020-01-01T10:00")
        page.get_by_label("To", exact=True).fill("2020-01-02T10:00")
        expect(page.get_by_text("No decision matches these filters.")).to_be_visible()
        page.get_by_label("To", exact=True).fill("2120-01-02T10:00")
        expect(rows).to_have_count(2)
        page.reload()
        expect(page.get_by_label("From")).to_have_value("2020-01-01T10:00")
        page.goto(f"{site.url}/decisions?user_id=local&model=unknown")
        expect(page.locator(".chip")).to_have_text(["user local ×", "model unknown ×"])
        page.get_by_role("link", name="model unknown").click()
        expect(rows).to_have_count(2)
        decision = page.locator("a.row").first.get_attribute("href")
        assert decision is not None
        search.fill(decision.rpartition("/")[2])
        search.press("Enter")
        expect(page).to_have_url(re.compile(decision))


def test_a_turn_with_refused_calls_says_why_and_is_found(browser: Browser, tmp_path: Path, template: Path) -> None:
    requested = calls(("add_task", {"description": "call mom"}), ("drop_database", {}), ("list_tasks", {"user_id": "bob"}))
    model = ScriptedAdapter([requested, says("Added."), says("Hello.")])
    with open_site(browser, tmp_path, template, lambda environment: environment.runtime(model)) as site, site.page() as page:
        say(page, "add a task to call mom")
        expect(page.locator(".notice")).to_have_text(
            [
                "Not done: 1 action. Not in the constitution.",
                "Not done: list tasks (user 'bob'). Only your own data can be used.",
            ]
        )
        say(page, "hello")
        page.get_by_role("link", name="Behavior", exact=True).click()
        page.get_by_role("link", name="2 refused").click()
        expect(page).to_have_url(f"{site.url}/decisions?refused=true&within=day")
        expect(page.locator(".row")).to_have_count(1)
        expect(page.locator(".row .verdict")).to_have_text("2 calls refused")
        expect(page.locator(".row .outcome")).to_have_text("done")
        page.get_by_label("Calls").select_option("none refused")
        expect(page.locator(".row-text")).to_have_text(["hello"])


def test_the_round_of_a_decision_is_the_one_of_its_path(site: Site) -> None:
    with site.page() as page:
        for text, number in (("show my tasks", 2), ("hello", 1)):
            say(page, text)
            page.get_by_role("link", name="Decision", exact=True).last.click()
            expect(page.locator(".steps .progress-text")).to_contain_text(f"round {number} of 5")
            expect(page.locator("dt", has_text=re.compile("^Round$")).locator("+ dd")).to_have_text(str(number))
            page.go_back()


def test_the_outcome_of_a_decision_leads_to_what_it_means(site: Site) -> None:
    with site.page() as page:
        say(page, "hello")
        page.get_by_role("link", name="Decision", exact=True).click()
        page.get_by_role("link", name="answered").click()
        expect(page).to_have_url(f"{site.url}/help")
        expect(page.locator(".words dt", has_text="Set aside").locator("+ dd")).to_contain_text("can no longer be confirmed")


def test_a_decision_leads_to_the_rules_that_decided_it(browser: Browser, tmp_path: Path, template: Path) -> None:
    conditions = ConditionsFile(
        '@id("base") permit (principal, action, resource);\n'
        '@id("nothing is added") forbid (principal, action == Action::"add_task", resource);'
    )
    with (
        open_site(browser, tmp_path, template, lambda environment: environment.runtime(conditions=conditions)) as site,
        site.page() as page,
    ):
        say(page, "add a task to call mom")
        page.get_by_role("link", name="Decision", exact=True).click()
        # A rule refused it; the data was the user's own.
        expect(page.locator(".view-title .outcome")).to_have_text("refused by a rule: nothing is added")
        expect(page.locator(".view-title .outcome")).to_have_attribute("title", re.compile("^REFUSAL:MISSING_PERMISSION"))
        page.get_by_role("link", name="its text and the conditions").click()
        expect(page.get_by_label("Constitution").locator("pre")).to_contain_text('- add_task: "Add task[ {description}]"')
        expect(page.get_by_label("Conditions")).to_contain_text("the same is in force now")
        with page.expect_download() as saved:
            page.get_by_label("Conditions").get_by_role("button", name="Download").click()
        assert saved.value.suggested_filename == "policy.cedar"
        assert saved.value.path().read_text() == conditions.text
        page.get_by_role("link", name="its decisions").click()
        expect(page.locator(".row-text")).to_contain_text("add a task to call mom")


def test_the_list_shows_new_decisions_by_itself(site: Site) -> None:
    with site.page() as page:
        say(page, "show my tasks")
        other = page.context.new_page()
        other.goto(f"{site.url}/decisions")
        expect(other.locator(".row-text")).to_have_text(["show my tasks"])
        say(page, "add a task to call mom")
        expect(other.locator(".row-text")).to_have_text(["add a task to call mom", "show my tasks"])


def test_an_open_list_asks_for_what_is_newer(site: Site) -> None:
    with site.page() as page:
        page.clock.install()
        say(page, "hello")
        page.goto(f"{site.url}/decisions")
        page.locator(".row").first.wait_for()
        # The rows become old enough that nothing before them can change.
        with page.expect_response(re.compile("after=")) as answered:
            page.clock.fast_forward("01:00")
        assert answered.value.json()["items"] == []
        sizes = answered.value.request.sizes()
        assert sizes["responseBodySize"] + sizes["responseHeadersSize"] < 1024


def test_a_long_list_keeps_only_the_rows_near_the_visible_ones(browser: Browser, tmp_path: Path, template: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(template, log)
    # In a thread: the browser of these tests has a running event loop in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, with_decisions(log, LOCAL_USER, 320)).result()
    with open_site(browser, tmp_path / "site", log, with_key) as site, site.page() as page:
        page.goto(f"{site.url}/decisions")
        rows = page.locator(".virtual > li")
        expect(rows.first).to_have_attribute("aria-posinset", "1")
        expect(page.locator(".view-title .quiet")).to_have_text("320")
        last = page.locator(".virtual > li[aria-posinset='320']")
        # Each scroll to the end loads what follows, until nothing follows.
        while last.count() == 0:
            page.locator("main").evaluate("main => main.scrollTo(0, main.scrollHeight)")
        expect(last).to_be_visible()
        expect(page.get_by_text("Loading older decisions")).to_have_count(0)
        assert rows.count() < 60
        page.locator("main").evaluate("main => main.scrollTo(0, 0)")
        expect(rows.first).to_have_attribute("aria-posinset", "1")
        assert rows.count() < 60
        page.locator(".virtual a").nth(3).click()
        expect(page.locator(".view-title .back")).to_have_text("Decisions")


def test_a_decision_shows_its_steps_calls_and_findings(site: Site) -> None:
    with site.page() as page:
        say(page, "add a task to call mom")
        say(page, "delete the call mom task")
        page.locator(".message footer a").last.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Delete task 'call mom'")
        expect(page.locator(".findings li")).to_have_text("Tool call 2, delete_task, waits for the user's confirmation.")
        expect(page.locator(".notes .verdict")).to_have_text(["waits for a yes"])
        page.locator(".notes button", has_text="delete task").click()
        expect(page.locator(".note-body")).to_contain_text("task_id")
        expect(page.locator("[data-state=BUILD_DECISION]")).to_have_attribute("data-condition", "visited")
        page.get_by_label("Step", exact=True).fill("2")
        expect(page.locator("[data-state=INVOKE_LLM]")).to_have_attribute("data-condition", "running")
        expect(page.locator("[data-state=BUILD_DECISION]")).to_have_attribute("data-condition", "idle")
        page.get_by_role("button", name="Play").click()
        expect(page.locator("[data-state=BUILD_DECISION]")).to_have_attribute("data-condition", "visited")


def test_a_decision_that_does_not_exist_says_so(site: Site) -> None:
    with site.page(refusals=True) as page:
        page.goto(f"{site.url}/decisions/00000000-0000-4000-8000-000000000000")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()


def test_the_page_goes_on_after_a_restart_of_the_server(browser: Browser, tmp_path: Path, template: Path) -> None:
    session = LaunchSession(secrets.token_urlsafe(32))
    built = read_page()
    [port] = free_ports(1)
    with ExitStack() as running:
        server = running.enter_context(live_server(tmp_path / "first", template, Environment.runtime, built, session, port))
        site = Site(server.url, session, browser)
        with site.page() as page:
            say(page, "add a task to call mom")
            running.close()
            page.get_by_role("link", name="Decisions", exact=True).click()
            lost = page.get_by_text("The server cannot be reached. What you see may be old")
            expect(lost).to_be_visible()
            # The next server has the databases of the first one.
            running.enter_context(
                live_server(tmp_path / "second", tmp_path / "first", Environment.runtime, built, session, port)
            )
            expect(lost).to_have_count(0)
            page.reload()
            expect(page.locator(".row-text")).to_have_text(["add a task to call mom"])
    # A server that stops answers with 503. Without one the system refuses a connection, or resets one that it had not accepted.
    known = r"ERR_CONNECTION_(REFUSED|RESET)|503 \(Service Unavailable\)"
    assert [problem for problem in site.problems if not re.search(known, problem)] == []


def test_a_typed_yes_is_listed_as_the_action(site: Site) -> None:
    with site.page() as page:
        for text in ("add a task to call mom", "delete call mom", "yes"):
            say(page, text)
        page.get_by_role("link", name="Decisions", exact=True).click()
        expect(page.locator(".row-text")).to_have_text(["Delete task 'call mom'", "add a task to call mom"])
        expect(page.locator(".row .outcome").first).to_have_text("done")
        expect(page.locator(".view-title .quiet")).to_have_text("2")
        page.get_by_label("Search").fill("delete")
        expect(page.locator(".row-text")).to_have_text(["Delete task 'call mom'"])
        page.locator(".row").click()
        related = page.locator(".related .row")
        expect(related).to_have_count(1)
        expect(related).to_contain_text("asked first")


def test_the_list_and_the_search_have_keys(site: Site) -> None:
    with site.page() as page:
        for text in ("hello", "show my tasks"):
            say(page, text)
        page.get_by_role("link", name="Decisions", exact=True).click()
        rows = page.locator(".row")
        expect(rows).to_have_count(2)
        for key, focused in (("j", 0), ("j", 1), ("j", 1), ("k", 0)):
            page.keyboard.press(key)
            expect(rows.nth(focused)).to_be_focused()
        decision = (rows.nth(1).get_attribute("href") or "").rpartition("/")[2]
        page.keyboard.press("/")
        # A letter that is written is no key.
        page.keyboard.type("jk")
        search = page.get_by_label("Search")
        expect(search).to_have_value("jk")
        search.fill(decision)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("hello")


def test_ids_and_the_request_are_copied(site: Site) -> None:
    with site.page(permissions=["clipboard-read", "clipboard-write"]) as page:
        say(page, "what's new?")
        page.get_by_role("link", name="Decision", exact=True).click()
        page.get_by_role("button", name="Decision id").click()
        expect(page.get_by_text("Decision id copied.")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == page.url.rpartition("/")[2]
        page.get_by_role("button", name="Request as curl").click()
        expect(page.get_by_text("Request as curl copied.")).to_be_visible()
        command = shlex.split(page.evaluate("navigator.clipboard.readText()"))
        assert command[:3] == ["curl", "-s", f"{site.url}/api/chat"]
        assert json.loads(command[-1]) == {"content": "what's new?"}

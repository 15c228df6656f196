"""The chat in a browser: live states, confirmations in several tabs, reloads, and text that tries to be more than text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.gated_model import GatedModel
from tests.page.screenshots import LONG_TASK, say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings


@pytest.fixture
def model() -> GatedModel:
    return GatedModel()


@pytest.fixture
def slow_site(browser: Browser, tmp_path: Path, template: Path, model: GatedModel) -> Iterator[Site]:
    """A server whose model waits for the test."""
    with open_site(browser, tmp_path, template, lambda environment: environment.runtime(model)) as site:
        yield site
        model.gate.release(100)


def state(page: Page, name: str, condition: str) -> None:
    expect(page.locator(f"[data-state={name}]")).to_have_attribute("data-condition", condition)


def ask_to_delete(page: Page) -> None:
    say(page, "add a task to call mom")
    say(page, "delete the call mom task")


def send(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def test_the_states_light_up_while_the_turn_runs(slow_site: Site, model: GatedModel) -> None:
    with slow_site.page(panel=True) as page:
        send(page, "add a task to call mom")
        state(page, "INVOKE_LLM", "running")
        state(page, "BUILD_REQUEST", "visited")
        state(page, "EXECUTE_TOOLS", "idle")
        expect(page.locator(".panel-title .progress-text")).to_have_text("invoke LLM · round 1 of 5")
        model.gate.release()
        expect(page.locator(".panel-title .progress-text")).to_have_text("invoke LLM · round 2 of 5")
        state(page, "EXECUTE_TOOLS", "visited")
        expect(page.locator("[data-edge='CHECK_ITERATIONS>INVOKE_LLM']")).to_have_class(re.compile("travelled"))
        model.gate.release()
        expect(page.locator(".message.assistant .content")).to_have_text("Added 'call mom' to your list.")
        expect(page.locator(".message.assistant .receipt")).to_have_text("Add task 'call mom'")
        state(page, "BUILD_DECISION", "visited")
        page.locator("[data-state=EXECUTE_TOOLS]").press("Enter")
        expect(page.locator(".details .verdict")).to_have_text("permitted")


def test_a_state_opens_its_request_its_response_and_the_outcome_of_every_call(site: Site) -> None:
    markup = "<b>bread</b>"
    with site.page(panel=True) as page:
        say(page, f"add a task to buy {markup}")
        details = page.locator(".details")
        page.locator("[data-state=INVOKE_LLM]").press("Enter")
        request = details.locator(".call", has_text="Request").first
        request.locator("summary").click()
        expect(request.locator("h3")).to_have_text(["System prompt", "Tools offered", "Tool choice", "Message: user"])
        expect(request).to_contain_text("add_task, list_tasks")
        expect(request).to_contain_text("required")
        expect(request.locator(".json").last).to_have_text(f"add a task to buy {markup}")
        # The second request has the call and its result.
        expect(details.locator(".call", has_text="Request").nth(1).locator("summary")).to_contain_text("messages: 3")
        response = details.locator(".call", has_text="Response").first
        expect(response.locator("summary")).to_contain_text("tool calls")
        response.locator("summary").click()
        expect(response.locator(".json")).to_contain_text('"name": "add_task"')
        page.locator("[data-state=EXECUTE_TOOLS]").press("Enter")
        expect(details.locator(".verdict")).to_have_text("permitted")
        details.locator("summary").click()
        expect(details.locator(".ledger")).to_have_text("done once")
        expect(details).to_contain_text("description: from your words")
        say(page, f"delete the buy {markup} task")
        page.locator("[data-state=EXECUTE_TOOLS]").press("Enter")
        expect(details.locator(".verdict")).to_have_text(["permitted", "awaiting at consent"])
        expect(details.locator(".ledger")).to_have_text(["not needed", "not sent"])
        # After a reload the record alone shows the same, and the times.
        page.reload()
        state(page, "BUILD_DECISION", "visited")
        page.locator("[data-state=INVOKE_LLM]").press("Enter")
        expect(details.locator(".visit > .quiet")).to_have_text([re.compile(rf"^round {n} of 5 · [\d.]+ m?s$") for n in (1, 2)])
        page.locator("[data-state=EXECUTE_TOOLS]").press("Enter")
        expect(details.locator(".verdict")).to_have_text(["permitted", "awaiting at consent"])
        details.locator("summary").last.click()
        expect(details).to_contain_text("waiting for the user's confirmation")
        assert page.locator(".details b").count() == 0


def test_a_reload_during_a_turn_continues_it(slow_site: Site, model: GatedModel) -> None:
    with slow_site.page() as page:
        send(page, "add a task to call mom")
        model.gate.release()
        expect(page.locator(".panel-title .progress-text")).to_have_text("invoke LLM · round 2 of 5")
        with page.expect_request(re.compile("/api/decisions/.*/events")) as continued:
            page.reload()
        assert re.fullmatch(r"[0-9a-f-]{36}:\d+", continued.value.headers["last-event-id"])
        state(page, "INVOKE_LLM", "running")
        state(page, "EXECUTE_TOOLS", "visited")
        model.gate.release()
        expect(page.locator(".message.assistant .receipt")).to_have_text("Add task 'call mom'")
        expect(page.locator(".message.user")).to_have_count(1)


# Of the two tests of two tabs, make test runs the one in which both confirm at the same time.
def test_a_confirmation_works_once_in_two_tabs(site: Site) -> None:
    with site.page() as first:
        ask_to_delete(first)
        second = first.context.new_page()
        second.goto(first.url)
        expect(second.get_by_role("button", name="Confirm")).to_be_visible()
        expect(second.locator(".card .change")).to_have_text("Delete task call mom")
        first.get_by_role("button", name="Confirm").click()
        for tab in (first, second):
            expect(tab.locator(".card")).to_have_attribute("data-state", "done")
            expect(tab.get_by_role("heading", name="Done", exact=True)).to_be_visible()
            expect(tab.get_by_role("button", name="Confirm")).to_have_count(0)
            # The card is the answer and the receipt.
            expect(tab.locator(".message")).to_have_count(4)


def test_two_tabs_that_confirm_at_the_same_time_delete_once(site: Site) -> None:
    with site.page() as first:
        ask_to_delete(first)
        second = first.context.new_page()
        # The second tab learns nothing from the first one: both send their answer.
        second.add_init_script("BroadcastChannel.prototype.postMessage = () => undefined")
        second.goto(first.url)
        expect(second.get_by_role("button", name="Confirm")).to_be_visible()
        first.evaluate("BroadcastChannel.prototype.postMessage = () => undefined")
        first.get_by_role("button", name="Confirm").click()
        expect(first.locator(".card")).to_have_attribute("data-state", "done")
        second.get_by_role("button", name="Confirm").evaluate("button => button.click()")
        expect(second.locator(".message.assistant .content").last).to_have_text(
            "That question has already been answered, so nothing was done now."
        )
        expect(second.locator(".card")).to_have_attribute("data-state", "done")


def test_a_declined_and_a_superseded_question_say_so(site: Site) -> None:
    with site.page() as page:
        ask_to_delete(page)
        page.get_by_role("button", name="Decline").click()
        expect(page.locator(".card")).to_have_attribute("data-state", "declined")
        say(page, "delete the call mom task")
        say(page, "show my tasks")
        aside = page.locator(".card").last
        expect(aside).to_have_attribute("data-state", "set_aside")
        expect(aside).to_contain_text("Nothing was changed.")
        # Its card says it, so the answer below does not.
        expect(page.locator(".notice")).to_have_count(0)
        # Cards are no landmarks: there may be several of the same name.
        assert findings(page) == []


def test_the_card_counts_down_and_expires(site: Site) -> None:
    with site.page() as page:
        page.clock.install()
        ask_to_delete(page)
        expect(page.get_by_role("timer")).to_have_text(re.compile(r"^(5:00|4:\d\d)$"))
        # From here on no answer of the server corrects the time of the page.
        page.route("**/api/**", lambda _: None)
        page.clock.fast_forward("02:00")
        expect(page.get_by_role("timer")).to_have_text(re.compile(r"^(3:00|2:\d\d)$"))
        page.clock.fast_forward("03:01")
        expect(page.get_by_role("heading", name="Not answered within five minutes")).to_be_visible()
        expect(page.get_by_role("button", name="Confirm")).to_have_count(0)


CUT = re.compile(rf"^(Add|Delete) task '{LONG_TASK[:70]}.*… \({len(LONG_TASK)} characters\)'$")


def test_the_card_shows_the_whole_of_a_long_task_and_folds_its_id(site: Site) -> None:
    with site.page() as page:
        say(page, f"add a task to {LONG_TASK}")
        # A receipt is one line: it cuts a long value, and says so.
        expect(page.locator(".receipt")).to_have_text(CUT)
        say(page, "delete the long letter task")
        expect(page.locator(".card .change")).to_have_text(f"Delete task {LONG_TASK}")
        expect(page.locator(".card details dl")).to_be_hidden()
        page.locator(".card summary").click()
        expect(page.locator(".card details dl")).to_contain_text("task_id")
        # An unclear answer: the same question again, and why.
        say(page, "hmm")
        expect(page.locator(".card .notice")).to_have_text("Answer this first: your last message was neither yes nor no.")
        expect(page.locator(".card .change")).to_have_text(f"Delete task {LONG_TASK}")
        say(page, "yes")
        expect(page.locator(".receipt").last).to_have_text(CUT)


def test_the_tasks_are_beside_the_chat_and_change_with_each_turn(site: Site) -> None:
    with site.page() as page:
        tasks = page.get_by_label("Tasks", exact=True)
        expect(tasks).to_contain_text("Nothing to do.")
        say(page, "add a task to call mom")
        say(page, "add a task to <b>pay</b> rent")
        expect(tasks.locator("li")).to_have_text(["<b>pay</b> rent", "call mom"])
        say(page, "I called mom")
        expect(tasks.locator("li")).to_have_text(["<b>pay</b> rent"])
        tasks.get_by_role("button", name="Done").click()
        expect(tasks.locator("li")).to_have_text(["call mom"])


def test_an_earlier_answer_shows_its_path(site: Site) -> None:
    with site.page() as page:
        say(page, "add a task to call mom")
        say(page, "hello")
        state(page, "EXECUTE_TOOLS", "idle")
        page.get_by_role("button", name="Path").first.click()
        state(page, "EXECUTE_TOOLS", "visited")
        expect(page.get_by_role("button", name="Path").first).to_have_attribute("aria-pressed", "true")
        page.locator("[data-state=EXECUTE_TOOLS]").press("Enter")
        expect(page.locator(".details .verdict")).to_have_text("permitted")
        page.get_by_text("Added 'call mom' to your list.").click()
        state(page, "EXECUTE_TOOLS", "visited")
        # The next turn is shown again as it runs.
        say(page, "thank you")
        state(page, "EXECUTE_TOOLS", "idle")


def test_markup_in_a_task_is_text(site: Site) -> None:
    markup = "buy <img src=x onerror=alert(1)> and <b>bread</b> today"
    with site.page() as page:
        say(page, f"add a task to {markup}")
        expect(page.locator(".receipt")).to_have_text(f"Add task '{markup}'")
        assert page.locator(".thread img, .thread b").count() == 0
        page.get_by_role("link", name="Decision", exact=True).click()
        expect(page.locator(".note-item").first).to_be_visible()
        assert page.locator("main img, main b").count() == 0


def test_hidden_characters_are_visible(site: Site) -> None:
    with site.page() as page:
        say(page, "add a task to pay \u202emoor\u202c\u200b r\u3164nt, می\u200cخواهم 👨\u200d👩\u200d👧 ❤\ufe0f")
        sent = page.locator(".message.user")
        expect(sent.locator(".hidden-character")).to_have_text(["‹U+202E›", "‹U+202C›", "‹U+200B›", "‹U+3164›"])
        assert not re.search("[\u200b\u202a-\u202e]", page.locator("body").inner_text())


def test_conversations_have_links_and_a_history(site: Site) -> None:
    with site.page() as page:
        say(page, "add a task to call mom")
        expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}$"))
        first = page.url
        page.get_by_role("link", name="New conversation").click()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.go_back()
        expect(page).to_have_url(first)
        expect(page.locator(".message.user")).to_have_text("add a task to call mom")
        state(page, "BUILD_DECISION", "visited")


def test_a_lost_connection_is_shown_and_the_message_is_sent_once(site: Site) -> None:
    with site.page(refusals=True) as page:
        say(page, "show my tasks")
        failing = ["the first attempt"]
        page.route("**/api/chat/stream", lambda route: route.abort() if failing and failing.pop() else route.continue_())
        page.get_by_label("Message", exact=True).fill("add a task to call mom")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".receipt")).to_have_text("Add task 'call mom'")
    # Chromium reports the aborted request.
    assert [problem for problem in site.problems if "ERR_FAILED" not in problem] == []
    site.problems.clear()


def test_the_page_fits_a_phone(site: Site) -> None:
    with site.page(viewport={"width": 390, "height": 780}) as page:
        ask_to_delete(page)
        page.locator(".panel-toggle").click()
        expect(page.locator("[data-state=EXECUTE_TOOLS]")).to_be_visible()
        decision = page.locator(".message footer a").last.evaluate("link => link.href")
        paths = [page.url, decision, decision.replace("/decisions/", "/lab/")]
        for path in [*paths, *(f"{site.url}/{view}" for view in ("decisions", "lab", "behavior"))]:
            page.goto(path)
            page.locator(".columns, .message, .row, .tiles").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390

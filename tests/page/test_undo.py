"""The undo of a change in a browser: a button for as long as its line says, a question, and what became of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.clock import ManualClock, SystemClock
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import LLMResponse
from graph_agent.record.settlements import Settlement, store_settlement
from graph_agent.record.tree.leaves import Sealer
from graph_agent.settings import Settings
from graph_agent.testing import OrderDesk, says
from tests.chat.environment import Environment
from tests.desk import UNDOABLE, street
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_small_screens import barriers
from tests.scripted_turns import calls, done, failed

SCRIPT = [
    calls(("set_address", {"order_id": "W1", "address": "Birch 9"})),
    says("It goes to Birch 9."),
    calls(("send_mail", {"text": "hello"})),
    says("Sent."),
]
NOTE = [calls(("add_note", {"text": "call back"})), says("I do not know."), says("You are welcome.")]
BOTH = [
    calls(("set_address", {"order_id": "W1", "address": "Birch 9"}), ("send_mail", {"text": "hello"})),
    says("Done."),
]


@pytest.fixture
def desk() -> OrderDesk:
    return OrderDesk()


@pytest.fixture
def script() -> list[LLMResponse]:
    """The responses of the model."""
    return SCRIPT


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path, desk: OrderDesk, script: list[LLMResponse]) -> Iterator[Site]:
    """A server whose changes of addresses can be undone for thirty minutes."""

    def make(environment: Environment) -> Runtime:
        return environment.runtime(ScriptedAdapter(script), tools=desk, constitution=UNDOABLE)

    with open_site(browser, tmp_path, template, make) as site:
        yield site


def test_a_change_is_undone_after_a_question(site: Site, desk: OrderDesk) -> None:
    with site.page(viewport={"width": 320, "height": 568}) as page:
        say(page, "send it to Birch 9")
        say(page, "write to them")
        undo = page.get_by_role("button", name=re.compile(r"^Undo \((29|30) minutes left\)$"))
        expect(undo).to_have_count(1)
        assert barriers(page) == []
        undo.press("Enter")
        card = page.get_by_label("Confirmation")
        expect(card).to_contain_text("Elm 1")
        expect(undo).to_have_count(0)
        assert street(desk) == "Birch 9"
        card.get_by_role("button", name="Confirm").click()
        expect(card).to_have_attribute("data-state", "done")
        expect(card.get_by_role("heading")).to_have_text("Undo: done")
        assert street(desk) == "Elm 1"
        expect(page.get_by_role("button", name=re.compile("^Undo"))).to_have_count(0)
        # The link comes with the end of the turn.
        expect(page.locator(".message.assistant").get_by_role("link", name="Decision")).to_have_count(4)
        made = page.locator(".message.assistant").first.get_by_role("link", name="Decision")
        asked = page.locator(".message.assistant").nth(2).get_by_role("link", name="Decision").last
        done = card.get_by_role("link", name="Decision")
        links = [link.get_attribute("href") or "" for link in (made, asked, done)]
        page.reload()
        expect(card).to_have_attribute("data-state", "done")
        expect(page.get_by_role("button", name=re.compile("^Undo"))).to_have_count(0)
        page.goto(f"{site.url}{links[0]}")
        expect(page.locator(f"dd a[href='{links[2]}']")).to_be_visible()
        page.goto(f"{site.url}{links[1]}")
        expect(page.locator(f"dd a[href='{links[0]}']")).to_be_visible()


def test_after_a_no_the_change_stays_and_can_still_be_undone(site: Site, desk: OrderDesk) -> None:
    with site.page() as page:
        say(page, "send it to Birch 9")
        page.get_by_role("button", name=re.compile("^Undo")).click()
        page.get_by_role("button", name="Decline").click()
        expect(page.get_by_role("button", name=re.compile("^Undo"))).to_be_visible()
        assert street(desk) == "Birch 9"


def test_of_two_pages_the_second_one_learns_that_it_was_undone(site: Site, desk: OrderDesk) -> None:
    with site.page(refusals=True) as page:
        say(page, "send it to Birch 9")
        button = page.get_by_role("button", name=re.compile("^Undo"))
        expect(button).to_be_visible()
        # Another browser, which is not told what happens in this one.
        with site.page() as other:
            other.goto(page.url)
            other.get_by_role("button", name=re.compile("^Undo")).click()
            other.get_by_role("button", name="Confirm").click()
            expect(other.locator(".card")).to_have_attribute("data-state", "done")
        button.click()
        expect(page.get_by_role("alert")).to_contain_text("has undone it already")
        expect(button).to_have_count(0)
        assert desk.changes == ["set_address W1 Birch 9", "set_address W1 Elm 1"]


def test_two_tabs_that_ask_at_the_same_time_undo_once(site: Site, desk: OrderDesk) -> None:
    # The second answer may be refused while the first one is worked on.
    with site.page(refusals=True) as page:
        say(page, "send it to Birch 9")
        page.get_by_role("button", name=re.compile("^Undo")).click()
        second = page.context.new_page()
        second.goto(page.url)
        confirms = [one.get_by_role("button", name="Confirm") for one in (page, second)]
        for confirm in confirms:
            expect(confirm).to_be_enabled()
        # Both are clicked before either page has heard of the other one's answer.
        for confirm in confirms:
            confirm.evaluate("button => button.click()")
        for one in (page, second):
            expect(one.locator(".card")).to_have_attribute("data-state", "done")
        assert desk.changes == ["set_address W1 Birch 9", "set_address W1 Elm 1"]


def test_what_others_have_changed_since_is_not_undone_and_the_reply_says_so(site: Site, desk: OrderDesk) -> None:
    with site.page() as page:
        say(page, "send it to Birch 9")
        desk.orders["W1"]["address"]["street"] = "Oak 1"
        page.get_by_role("button", name=re.compile("^Undo")).click()
        expect(page.locator(".message.assistant").last).to_contain_text("It has changed since")
        assert street(desk) == "Oak 1"


@pytest.mark.parametrize("script", [NOTE], ids=["note"])
def test_a_change_can_be_undone_once_its_outcome_is_learned(site: Site, desk: OrderDesk, tmp_path: Path) -> None:
    desk.answers["add_note"] = lambda _: failed(ToolErrorCode.TIMEOUT_ERROR)
    desk.notes["n1"] = "call back"
    undo = re.compile("^Undo")
    with site.page() as page:
        say(page, "note to call back")
        noted = page.locator(".message.assistant").last
        expect(noted.locator(".notice")).to_contain_text("Not known whether this was done")
        expect(noted.get_by_role("button", name=undo)).to_have_count(0)
        decision = (noted.get_by_role("link", name="Decision").get_attribute("href") or "").rpartition("/")[2]
        settlement = Settlement(
            decision_id=decision, sequence=1, result=done({"note": {"id": "n1"}}), settled_at=SystemClock().now()
        )
        database = Database.open(Settings(GRAPH_AGENT_HOME=tmp_path).database)
        database.write_now(lambda connection: store_settlement(connection, settlement, Sealer(None)))
        database.close_now()
        say(page, "thanks")
        page.locator(".message.assistant").first.get_by_role("button", name=undo).click()
        page.get_by_label("Confirmation").get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("heading", name="Undo: done")).to_be_visible()
        expect(page.locator(".card .sentence").last).to_have_text("Undo: Add note")
        assert desk.notes == {}


@pytest.fixture
def clock() -> ManualClock:
    """The time of the server. The browser's own time goes on."""
    return ManualClock(datetime.now(UTC))


@pytest.fixture
def timed_site(browser: Browser, tmp_path: Path, template: Path, desk: OrderDesk, clock: ManualClock) -> Iterator[Site]:
    """A server that does not tell the page its time, so that the page counts by the browser's."""

    def make(environment: Environment) -> Runtime:
        environment.use_clock(clock)
        return environment.runtime(ScriptedAdapter(SCRIPT), tools=desk, constitution=UNDOABLE)

    with open_site(browser, tmp_path, template, make, date_header=False) as site:
        yield site


def test_the_button_disappears_when_its_time_is_over(timed_site: Site, clock: ManualClock) -> None:
    begin = clock.now()
    with timed_site.context(viewport={"width": 320, "height": 568}) as context:
        page = context.new_page()
        page.clock.install(time=begin)
        page.goto(timed_site.link)
        say(page, "send it to Birch 9")
        button = page.get_by_role("button", name=re.compile("^Undo"))
        for minutes, left in ((15.5, "14 minutes"), (28.5, "1 minute"), (29.5, "less than a minute")):
            page.clock.pause_at(begin + timedelta(minutes=minutes))
            expect(button).to_have_text(f"Undo ({left} left)")
        page.clock.pause_at(begin + timedelta(minutes=30, seconds=1))
        expect(button).to_have_count(0)
        page.clock.resume()
        expect(page.locator(".receipt")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        assert barriers(page) == []


def second_tab(page: Page) -> tuple[Page, list[Locator]]:
    """Open the conversation in a second tab; return it and the buttons of both."""
    other = page.context.new_page()
    other.goto(page.url)
    buttons = [tab.get_by_role("button", name=re.compile("^Undo")) for tab in (page, other)]
    for button in buttons:
        expect(button).to_be_enabled()
    return other, buttons


def test_a_button_that_is_pressed_after_its_time_gets_the_reason_of_the_server(
    timed_site: Site, desk: OrderDesk, clock: ManualClock
) -> None:
    with timed_site.page(refusals=True, viewport={"width": 320, "height": 568}) as page:
        say(page, "send it to Birch 9")
        other, buttons = second_tab(page)
        clock.advance(minutes=31)
        for tab, button in zip((page, other), buttons, strict=True):
            button.focus()
            tab.keyboard.press("Enter")
            expect(tab.get_by_role("alert")).to_have_text(
                re.compile(r"^Nothing can be undone: .* \(the time in which it could be undone ended on [0-9]+ .* UTC\)\.$")
            )
            expect(button).to_have_count(0)
            assert tab.evaluate("document.documentElement.scrollWidth") == 320
            assert barriers(tab) == []
        assert desk.changes == ["set_address W1 Birch 9"]
        page.reload()
        expect(page.locator(".receipt")).to_have_count(1)
        expect(page.get_by_role("button", name=re.compile("^Undo"))).to_have_count(0)


def test_a_question_whose_undo_is_over_is_answered_with_a_sentence(
    timed_site: Site, desk: OrderDesk, clock: ManualClock
) -> None:
    with timed_site.page(refusals=True) as page:
        say(page, "send it to Birch 9")
        clock.advance(minutes=28)
        page.get_by_role("button", name=re.compile("^Undo")).click()
        confirm = page.get_by_role("button", name="Confirm")
        expect(confirm).to_be_enabled()
        clock.advance(minutes=2)
        confirm.click()
        expect(page.locator(".message.assistant").last).to_contain_text("That question has expired, so nothing was done.")
        expect(page.get_by_role("button", name=re.compile("^Undo"))).to_have_count(0)
        assert desk.changes == ["set_address W1 Birch 9"]


def test_after_an_undo_with_the_keyboard_the_button_is_gone_in_every_tab(site: Site, desk: OrderDesk) -> None:
    with site.page(viewport={"width": 320, "height": 568}) as page:
        say(page, "send it to Birch 9")
        other, buttons = second_tab(page)
        buttons[0].focus()
        page.keyboard.press("Enter")
        confirm = page.get_by_role("button", name="Confirm")
        expect(confirm).to_be_enabled()
        # The keyboard goes on at the question.
        for _ in range(6):
            page.keyboard.press("Tab")
            if confirm.evaluate("button => button === document.activeElement"):
                break
        expect(confirm).to_be_focused()
        page.keyboard.press("Enter")
        for tab, button in zip((page, other), buttons, strict=True):
            expect(tab.locator(".card")).to_have_attribute("data-state", "done")
            expect(button).to_have_count(0)
        assert desk.changes == ["set_address W1 Birch 9", "set_address W1 Elm 1"]


STAYS = "This stays as it is: send mail (text 'hello') (it cannot be undone)."
CALL = re.compile(r"^Undo: Set address\s+Address: 'Birch 9' → 'Elm 1'\s+Order: 'W1'")
FACT = "get order W1: address.street was 'Elm 1' before the change, which left it at 'Birch 9'"


@pytest.mark.parametrize("script", [BOTH])
def test_the_page_the_replay_and_the_saved_file_say_what_a_decision_undoes(site: Site, tmp_path: Path) -> None:
    with site.page(viewport={"width": 320, "height": 640}) as page:
        say(page, "send it to Birch 9 and write to them")
        page.get_by_role("button", name=re.compile("^Undo")).click()
        page.get_by_role("button", name="Confirm").click()
        expect(page.locator(".card")).to_have_attribute("data-state", "done")
        links = page.locator(".message.assistant").get_by_role("link", name="Decision")
        expect(links).to_have_count(3)
        expect(page.locator(".working")).to_have_count(0)
        made, done, asked = [(link.get_attribute("href") or "").rpartition("/")[2] for link in links.all()]
        for decision, title in ((asked, "Asks to undo decision"), (done, "Undoes decision")):
            page.goto(f"{site.url}/decisions/{decision}?step=1#BUILD_REQUEST")
            says_undo(page, f"{title} {made}")
            expect(page.get_by_label("Details of build request")).to_contain_text(f"{title} {made}")
            expect(page.locator(f"dd a[href='/decisions/{made}']")).to_have_count(1)
            page.goto(f"{site.url}/lab/{decision}")
            expect(page.locator(".state-rows li").first).to_contain_text(f"{title} {made}")
            saved = saved_file(page, tmp_path / f"{decision}.html")
            with site.context(offline=True, viewport={"width": 320, "height": 640}) as elsewhere:
                file = elsewhere.new_page()
                file.goto(saved.as_uri())
                says_undo(file, f"{title} {made}")
                file.get_by_label("Step", exact=True).fill("1")
                expect(file.locator(".film")).to_contain_text(f"1 of 3 · build request · {title} {made}")
                file.get_by_label("Step", exact=True).fill("2")
                expect(file.locator(".film")).to_contain_text("2 of 3 · execute tools")
                assert file.evaluate("document.documentElement.scrollWidth") == 320
                # What is not proved is not said.
                file.fill("#trusted-keys", "")
                expect(file.locator("#verdict")).to_have_text("Not proved")
                expect(file.locator(".undoing")).to_have_count(0)
        # The record of a change ends before it is undone.
        page.goto(f"{site.url}/lab/{made}")
        saved = saved_file(page, tmp_path / "made.html")
        page.goto(saved.as_uri())
        expect(page.locator("#verdict")).to_have_text(re.compile("^Signed by the log"))
        expect(page.locator(".film-words")).to_contain_text("send it to Birch 9")
        expect(page.locator(".undoing")).to_have_count(0)
        expect(page.locator("body")).to_contain_text("or that what it did was not undone later")


@pytest.mark.parametrize("yes", [True, False])
def test_an_undo_that_was_not_done_is_not_said_to_undo(site: Site, desk: OrderDesk, *, yes: bool) -> None:
    with site.page() as page:
        say(page, "send it to Birch 9")
        page.get_by_role("button", name=re.compile("^Undo")).click()
        answer = page.get_by_role("button", name="Confirm" if yes else "Decline")
        expect(answer).to_be_enabled()
        if yes:
            desk.orders["W1"]["address"]["street"] = "Oak 1"
        answer.click()
        expect(page.locator(".card")).to_have_attribute("data-state", "not_done" if yes else "declined")
        answers = page.locator(".message.assistant")
        # Why it was not done is a reply of its own; after a no the card says all.
        expect(answers).to_have_count(3 if yes else 2)
        made, answered, *_ = [link.get_attribute("href") for link in answers.get_by_role("link", name="Decision").all()]
        page.goto(f"{site.url}{answered}")
        undoing = page.locator(".undoing")
        expect(undoing).to_contain_text(f"Does not undo decision {(made or '').rpartition('/')[2]}")
        expect(undoing.get_by_role("listitem").first).to_have_text(CALL)
        expect(undoing.locator(".verdict")).to_have_text(["refused"] if yes else [])
        if yes:
            # The values are in the notice beside it.
            expect(undoing).to_contain_text("not undone: it has changed since")


def says_undo(page: Page, title: str) -> None:
    undoing = page.locator(".undoing")
    expect(undoing.locator("h2")).to_have_text(title)
    expect(undoing.locator("ol > li")).to_have_count(1)
    expect(undoing.locator("ol > li")).to_have_text(CALL)
    expect(undoing).to_contain_text(FACT)
    expect(undoing).to_contain_text(STAYS)


def saved_file(page: Page, file: Path) -> Path:
    """Save the file for an auditor from the view of a replay."""
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save for an auditor").click()
    saved.value.save_as(file)
    return file

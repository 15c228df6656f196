"""Approval by another person in two browsers: one asks, others answer, and the first one reads what became of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.clock import ManualClock
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.canonical import canonical_json
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.schema.check import MAX_ARGUMENT_BYTES
from graph_agent.testing import OrderDesk
from tests.api.test_approvals import SIGN_IN, headers
from tests.chat.environment import Environment
from tests.chat.test_approval_grounds import UNSENT
from tests.chat.test_approvals import rules
from tests.desk import CONSTITUTION, ORDER, forbid, policy
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings
from tests.scripted_turns import calls


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    """A server with the embedded model, where additions need two people."""
    two = rules(approved="context.approvals.manager + context.approvals.finance >= 2", name="two people")
    with open_site(
        browser, tmp_path, template, lambda made: made.runtime(settings=SIGN_IN, conditions=two), bearer=True
    ) as site:
        yield site


def sign_in(page: Page, user: str, *groups: str) -> None:
    page.get_by_label("Token").fill(headers(user, *groups)["Authorization"].removeprefix("Bearer "))
    page.get_by_role("button", name="Sign in").click()


def open_request(page: Page, user: str, *groups: str) -> None:
    """Sign in, and read the one request that waits for this user."""
    sign_in(page, user, *groups)
    page.get_by_role("link", name=re.compile("^Inbox")).click()
    page.get_by_role("link", name="Read all of it").click()


def test_two_managers_approve_and_the_open_chat_shows_what_was_done(site: Site) -> None:
    with site.page(refusals=True) as ann, site.page(refusals=True) as bob, site.page(refusals=True) as eve:
        sign_in(ann, "ann")
        say(ann, "add a task to buy bread")
        card = ann.get_by_role("article", name="Approval")
        expect(card.get_by_role("heading")).to_have_text("Waits for approval")
        expect(card.get_by_text("It waits for another person with the role finance or manager: two people.")).to_be_visible()
        expect(card.get_by_role("button", name="Withdraw")).to_be_visible()
        assert findings(ann) == []
        open_request(bob, "bob", "manager")
        expect(bob.get_by_text("buy bread").first).to_be_visible()
        expect(bob.get_by_text("If you approve it, it still waits for others")).to_be_visible()
        assert findings(bob) == []
        bob.get_by_role("button", name="Approve").click()
        expect(bob.get_by_text("You have answered this request.")).to_be_visible()
        open_request(eve, "eve", "finance")
        expect(eve.get_by_text("If you approve it, it is done at once.")).to_be_visible()
        eve.get_by_role("button", name="Approve").click()
        expect(eve.get_by_role("heading", name="Approved")).to_be_visible()
        expect(card).to_have_attribute("data-state", "done")
        expect(card.get_by_text("Approved by 'bob' as manager and 'eve' as finance.")).to_be_visible()
        expect(card).to_contain_text("buy bread")
        expect(card.get_by_role("button", name="Withdraw")).to_have_count(0)
        # No yes was asked for or given, and what code says is not shown as said by the user; the tasks are current.
        expect(ann.get_by_role("article", name="Confirmation")).to_have_count(0)
        assert ann.locator(".message.user:not(.event)").all_inner_texts() == ["add a task to buy bread"]
        expect(ann.locator(".tasks li")).to_have_text("buy bread")
        ann.reload()
        expect(card).to_contain_text("buy bread")
        expect(ann.get_by_role("article", name="Confirmation")).to_have_count(0)
        # The card says all of it.
        expect(ann.locator(".message.event")).to_have_count(0)
        expect(ann.locator(".message")).to_have_count(2)
        assert findings(ann) == []


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (320, "dark")])
def test_a_request_is_denied_with_a_reason_or_withdrawn(site: Site, width: int, scheme: str) -> None:
    size = {"width": width, "height": 800}
    with site.page(refusals=True, viewport={"width": 1360, "height": 800}, color_scheme=scheme) as ann:
        sign_in(ann, "ann")
        say(ann, "add a task to buy bread")
        with site.page(refusals=True, viewport=size, color_scheme=scheme) as bob:
            open_request(bob, "bob", "manager")
            assert findings(bob) == []
            deny = bob.get_by_role("button", name="Deny")
            expect(deny).to_be_disabled()
            bob.get_by_label("Reason, which the requester reads").fill("not now")
            assert bob.evaluate("document.documentElement.scrollWidth") <= width
            deny.click()
            expect(bob.get_by_role("heading", name="Denied")).to_be_visible()
            assert findings(bob) == []
        card = ann.get_by_role("article", name="Approval")
        expect(card.get_by_text("'bob' says: 'not now'")).to_be_visible()
        expect(card.get_by_text("Denied by 'bob' as manager.")).to_be_visible()
        expect(card).to_have_attribute("data-state", "denied")
        say(ann, "add a task to buy milk")
        ann.get_by_role("button", name="Withdraw").click()
        expect(card.last).to_have_attribute("data-state", "cancelled")
        expect(card.last.get_by_role("heading")).to_have_text("Withdrawn")
        # Withdraw is no click on the path of its turn.
        expect(ann.locator(".panel-toggle")).to_have_attribute("aria-expanded", "false")
        assert findings(ann) == []


def test_the_receipt_is_in_the_open_tab_six_seconds_after_the_approval(site: Site) -> None:
    """By the clock of that tab, which does not go on by itself: a busy machine is slow, and the page is not."""
    with site.context(refusals=True) as context, site.page(refusals=True) as bob, site.page(refusals=True) as eve:
        ann = context.new_page()
        ann.clock.install()
        ann.goto(site.link)
        sign_in(ann, "ann")
        say(ann, "add a task to buy bread")
        expect(ann.get_by_role("button", name="Withdraw")).to_be_visible()
        for page, user, role in ((bob, "bob", "manager"), (eve, "eve", "finance")):
            open_request(page, user, role)
            expect(page.get_by_role("button", name="Approve")).to_be_visible()
        bob.get_by_role("button", name="Approve").click()
        expect(bob.get_by_text("You have answered this request.")).to_be_visible()
        ann.clock.pause_at(ann.evaluate("Date.now()") / 1000 + 1)
        eve.get_by_role("button", name="Approve").click()
        expect(eve.get_by_role("link", name="Decision", exact=True)).to_be_visible()
        expect(ann.locator(".card[data-state=done]")).to_have_count(0)
        ann.clock.run_for(6000)
        expect(ann.locator(".card")).to_have_attribute("data-state", "done")


def test_a_withdrawn_request_can_no_longer_be_answered_in_the_view_of_its_approver(site: Site) -> None:
    with site.page(refusals=True, viewport={"width": 320, "height": 800}) as ann, site.page(refusals=True) as bob:
        sign_in(ann, "ann")
        say(ann, "add a task to buy bread")
        withdraw = ann.get_by_role("button", name="Withdraw")
        expect(withdraw).to_be_visible()
        assert ann.evaluate("document.documentElement.scrollWidth") <= 320
        open_request(bob, "bob", "manager")
        expect(bob.get_by_role("button", name="Approve")).to_be_visible()
        withdraw.click()
        expect(ann.get_by_role("heading", name="Withdrawn")).to_be_visible()
        expect(bob.get_by_role("heading", name="Withdrawn")).to_be_visible()
        expect(bob.get_by_role("button", name="Approve")).to_have_count(0)
        expect(ann.get_by_role("article", name="Confirmation")).to_have_count(0)


class _LaterThatDay:
    """A runtime whose time a test sets on."""

    def __call__(self, environment: Environment) -> Runtime:
        self.clock, self.loop = ManualClock(datetime.now(UTC)), asyncio.get_running_loop()
        environment.use_clock(self.clock)
        self.runtime = environment.runtime(settings=SIGN_IN, conditions=rules())
        return self.runtime

    def a_day_passes(self) -> None:
        async def advance() -> None:
            self.clock.advance(hours=24)
            await self.runtime.chat.serve_due()

        asyncio.run_coroutine_threadsafe(advance(), self.loop).result(60)


def test_a_request_that_nobody_answers_expires_before_both(browser: Browser, tmp_path: Path, template: Path) -> None:
    made = _LaterThatDay()
    with (
        open_site(browser, tmp_path, template, made, bearer=True) as site,
        site.page(refusals=True) as ann,
        site.page(refusals=True) as bob,
    ):
        sign_in(ann, "ann")
        say(ann, "add a task to buy bread")
        expect(ann.get_by_role("button", name="Withdraw")).to_be_visible()
        open_request(bob, "bob", "manager")
        expect(bob.get_by_role("button", name="Approve")).to_be_visible()
        made.a_day_passes()
        expect(bob.get_by_role("heading", name="Expired")).to_be_visible()
        expect(bob.get_by_role("button", name="Approve")).to_have_count(0)
        expect(ann.get_by_text("No one answered until").first).to_be_visible()
        expect(ann.get_by_role("button", name="Withdraw")).to_have_count(0)
        expect(ann.locator(".tasks li")).to_have_count(0)


HIDDEN_TEXT = "paid twice  (see\n1,250.00) \u202eevil"


@pytest.fixture
def desk() -> OrderDesk:
    orders = {"W-2002": {"status": "delivered <b>", "note": HIDDEN_TEXT}}
    return OrderDesk(orders=orders)


@pytest.fixture
def reason() -> str:
    return HIDDEN_TEXT


@pytest.fixture
def desk_site(browser: Browser, tmp_path: Path, template: Path, desk: OrderDesk, reason: str) -> Iterator[Site]:
    """A desk whose rule reads the order, and whose model copies a reason from what a tool has returned."""
    cancel = ("cancel_order", {"order_id": "W-2002", "reason": reason})
    script = [calls(("get_order", {"order_id": "W-2002"})), calls(cancel)]
    file = ConditionsFile(policy(ORDER, forbid("a manager cancels", "cancel_order", UNSENT)), roles=("finance", "manager"))
    given = {"conditions": file, "tools": desk, "constitution": CONSTITUTION, "settings": SIGN_IN}
    with open_site(
        browser, tmp_path, template, lambda made: made.runtime(ScriptedAdapter(list(script)), **given), bearer=True
    ) as site:
        yield site


@pytest.mark.parametrize("width", [1360, 320])
def test_the_inbox_counts_and_shows_what_waits_with_its_sources_and_facts(desk_site: Site, desk: OrderDesk, width: int) -> None:
    with desk_site.page(refusals=True) as ann, desk_site.page(refusals=True, viewport={"width": width, "height": 800}) as bob:
        sign_in(bob, "bob", "manager")
        bob.get_by_role("link", name="Inbox").click()
        expect(bob.get_by_text("Nothing waits for you.")).to_be_visible()
        sign_in(ann, "ann", "manager")
        say(ann, "cancel W-2002")
        card = bob.get_by_role("article", name="Request", exact=True)
        expect(bob.get_by_role("link", name="Inbox 1 question waits")).to_be_visible()
        # Nobody is told of a request of their own.
        expect(ann.get_by_role("link", name="Inbox", exact=True)).to_be_visible()
        expect(card.locator("dt")).to_have_text(["order_id", "reason", "order W-2002"])
        origin = "not from the requester's words: it stands in a result of 'Get order'"
        expect(card.locator("dd")).to_have_text(["from the requester's words", origin, "status: delivered <b>"])
        expect(card.locator(".by-server")).to_have_text(["status: delivered <b>"])
        assert findings(bob) == []
        assert bob.evaluate("document.documentElement.scrollWidth") <= width
        desk.orders["W-2002"]["status"] = "returned"
        card.get_by_role("link", name="Read all of it").click()
        expect(bob.get_by_role("heading", name="Question", exact=True)).to_be_visible()
        value = bob.locator("dt", has_text="reason").locator("+ dd")
        # Every character of the value, also spaces, lines and what is invisible.
        assert value.locator("> span").first.inner_text() == "paid twice  (see\n1,250.00) ‹U+202E›evil"
        expect(value.locator(".origin")).to_have_text(origin)
        expect(bob.locator(".by-server")).to_have_text(["status: delivered <b>", "status: returned"])
        expect(bob.get_by_text("order W-2002, now")).to_be_visible()
        assert bob.evaluate("document.documentElement.scrollWidth") <= width
        assert findings(bob) == []
        bob.get_by_label("Reason, which the requester reads").fill("no")
        bob.get_by_role("button", name="Deny").click()
        expect(bob.get_by_role("heading", name="Denied")).to_be_visible()
        bob.get_by_role("link", name="Inbox", exact=True).click()
        expect(bob.get_by_text("Nothing waits for you.")).to_be_visible()


LONG = "".join(f"{number}  \u202e\u2066<i>\u200b\n" for number in range(820))


@pytest.mark.parametrize("reason", [LONG], ids=["16 KB"])
def test_aisvs_9_2_2_the_page_shows_every_character_of_the_longest_value(desk_site: Site, reason: str) -> None:
    assert 0.9 < len(canonical_json(reason).encode()) / MAX_ARGUMENT_BYTES < 1
    with desk_site.page(refusals=True) as ann, desk_site.page(refusals=True, viewport={"width": 320, "height": 800}) as bob:
        sign_in(ann, "ann")
        say(ann, "cancel W-2002")
        open_request(bob, "bob", "manager")
        expect(bob.get_by_role("heading", name="Question", exact=True)).to_be_visible()
        value = bob.locator("dt", has_text="reason").locator("+ dd > span").first
        shown: dict[str, str | int | None] = {"\u202e": "‹U+202E›", "\u2066": "‹U+2066›", "\u200b": "‹U+200B›"}
        assert value.text_content() == reason.translate(str.maketrans(shown))
        assert value.evaluate("element => getComputedStyle(element).whiteSpaceCollapse") == "preserve"
        assert value.evaluate("element => element.scrollWidth <= document.documentElement.clientWidth")
        assert bob.evaluate("document.documentElement.scrollWidth") <= 320

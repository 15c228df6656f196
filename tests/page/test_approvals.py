"""Approval by another person in two browsers: one asks, others answer, and the first one reads what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.test_approvals import SIGN_IN, headers
from tests.chat.test_approvals import rules
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings


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
    page.get_by_role("link", name="Inbox").click()
    page.get_by_role("link", name="Calls of others that wait for your approval, and your own").click()
    page.get_by_role("link", name="Read all of it").click()


@pytest.mark.slow
def test_two_managers_approve_and_the_open_chat_shows_what_was_done(site: Site) -> None:
    with site.page(refusals=True) as ann, site.page(refusals=True) as bob, site.page(refusals=True) as eve:
        sign_in(ann, "ann")
        say(ann, "add a task to buy bread")
        card = ann.get_by_role("region", name="Waits for an approval")
        expect(card.get_by_role("button", name="Withdraw")).to_be_visible()
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
        expect(
            ann.get_by_text("Approved by 'bob' as manager and 'eve' as finance. Done: added 'buy bread'.").first
        ).to_be_visible()
        expect(card).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1360, 320])
def test_a_request_is_denied_with_a_reason_or_withdrawn(site: Site, width: int) -> None:
    size = {"width": width, "height": 800}
    with site.page(refusals=True, viewport={"width": 1360, "height": 800}) as ann:
        sign_in(ann, "ann")
        say(ann, "add a task to buy bread")
        with site.page(refusals=True, viewport=size) as bob:
            open_request(bob, "bob", "manager")
            deny = bob.get_by_role("button", name="Deny")
            expect(deny).to_be_disabled()
            bob.get_by_label("Reason, which the requester reads").fill("not now")
            assert bob.evaluate("document.documentElement.scrollWidth") <= width
            deny.click()
            expect(bob.get_by_role("heading", name="Denied")).to_be_visible()
        expect(ann.get_by_text("'bob' says: 'not now'")).to_be_visible()
        say(ann, "add a task to buy milk")
        ann.get_by_role("button", name="Withdraw").click()
        expect(ann.get_by_text("You withdrew the request").first).to_be_visible()

"""What a result adds, on the page: tables and long texts, on a card and in a reply, as a server's words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from graph_agent import FunctionTools
from graph_agent.llm.scripted import ScriptedAdapter
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings
from tests.scripted_turns import calls

CONSTITUTION = """You lend things.

## Available Tools
- list_loans: List the loans (reads) (requires confirmation)
- give_back: Give a loan back (requires confirmation)
"""
HOSTILE = "a | b\n| --- |\n✓ Done **x** <b>y</b> [z](https://e.ee) \u202e"
SHOWN = "a | b‹U+000A›| --- |‹U+000A›✓ Done **x** <b>y</b> [z](https://e.ee) ‹U+202E›"
LOANS = [{"loan": 1, "item": HOSTILE, "due": "2026-12-10"}, {"loan": 2, "item": "tripod"}]


def list_loans() -> dict[str, Any]:
    """List the loans. (reads)"""
    return {"loans": LOANS * 15, "total": 30}


def give_back(loan: int) -> dict[str, Any]:
    """Give a loan back."""
    return {"loan": loan, "loans": LOANS, "note": f"Thanks.\n\n- {HOSTILE.splitlines()[2]}"}


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    model = ScriptedAdapter([calls(("list_loans", {})), calls(("give_back", {"loan": 3}))])
    desk = FunctionTools(list_loans, give_back)
    with open_site(
        browser, tmp_path, template, lambda made: made.runtime(model, tools=desk, constitution=CONSTITUTION)
    ) as site:
        yield site


def cells(table: Locator) -> list[list[str]]:
    return [row.locator("th, td").all_inner_texts() for row in table.locator("tr").all()]


def test_a_list_of_objects_is_a_table_whose_cells_are_plain_text(site: Site) -> None:
    with site.page(viewport={"width": 390, "height": 780}) as page:
        say(page, "what is lent?")
        page.get_by_role("button", name="Confirm").click()
        card = page.get_by_role("article", name="Confirmation")
        expect(card.get_by_role("heading")).to_have_text("Done")
        assert findings(page) == []
        read = cells(card.locator("table"))
        assert read[:3] == [["Loan", "Due", "Item"], ["1", "10 December 2026", SHOWN], ["2", "", "tripod"]]
        assert len(read) == 21
        expect(card.locator(".formatted")).to_contain_text("… and 10 more")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        card.get_by_role("link", name="Decision").click()
        reply = page.locator(".block", has=page.get_by_role("heading", name="Reply"))
        expect(reply.locator("tr")).to_have_count(21)
        assert cells(reply.locator("table")) == read
        expect(reply.locator(".content > span").first).to_have_text("Done: List the loans.\n  Loans:")
        expect(reply.locator(".content > span").last).to_have_text("30")
        assert page.locator("table b, table a, table strong").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert findings(page) == []


def test_a_long_text_has_its_lines_on_the_card(site: Site) -> None:
    with site.page() as page:
        say(page, "what is lent?")
        page.get_by_role("button", name="Decline").click()
        say(page, "give it back")
        page.get_by_role("button", name="Confirm").click()
        card = page.get_by_role("article", name="Confirmation").last
        expect(card.get_by_role("heading")).to_have_text("Done")
        expect(card.locator("dt")).to_have_text(["Loan", "Loans", "Note", "tool", "loan"])
        assert cells(card.locator("table"))[1] == ["1", "10 December 2026", SHOWN]
        note = card.locator(".formatted").last
        expect(note.locator("li")).to_contain_text("✓ Done x <b>y</b> z (https://e.ee/) ‹U+202E›")
        assert card.locator("b, img, script").count() == 0

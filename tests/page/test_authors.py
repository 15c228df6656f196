"""Who says what: the page gives the model, code and servers different forms, and names them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.testing import says
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.scripted_turns import calls

CLAIM = ("answer", {"text": "I have deleted it.", "reports_change": True})


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    script = [
        calls(("add_task", {"description": "call mom"})),
        says("I have added it."),
        calls(CLAIM),
    ]
    with open_site(browser, tmp_path, template, lambda environment: environment.runtime(ScriptedAdapter(script))) as site:
        yield site


def forms(parts: Locator) -> list[tuple[str, str]]:
    """Return author and text of each part."""
    return [(part.get_attribute("title") or "", part.inner_text().strip()) for part in parts.all()]


def typeface(page: Page, author: str) -> tuple[str, str]:
    style = "part => { const style = getComputedStyle(part); return [style.fontFamily, style.fontStyle]; }"
    family, slant = page.locator(f".content .by-{author}").first.evaluate(style)
    return family, slant


def test_each_author_has_a_form_and_a_name(site: Site, tmp_path: Path) -> None:
    with site.page() as page:
        say(page, "add a task to call mom")
        answer = page.locator(".message.assistant").last
        assert forms(answer.locator(".content > span")) == [("by the model", "I have added it.")]
        assert forms(answer.locator(".receipt > span > span")) == [("by code", "Add task 'call mom'")]
        expect(answer.locator("footer")).to_contain_text("by the model")
        say(page, "delete it")
        claim = page.locator(".message.assistant").last
        assert forms(claim.locator(".content > span")) == [
            ("by the model", "I have deleted it."),
            ("by code", "Nothing was changed."),
        ]
        expect(claim.locator("footer")).to_contain_text("by the model and code")
        assert len({typeface(page, author) for author in ("model", "code")}) == 2
        claim.get_by_role("link", name="Decision").click()
        reply = page.locator(".block", has=page.get_by_role("heading", name="Reply"))
        expect(reply).to_contain_text("by the model and code")
        assert forms(reply.locator(".content > span"))[1] == ("by code", "Nothing was changed.")
        _forget_authors(tmp_path)
        page.reload()
        expect(reply).to_contain_text("author not recorded")
        expect(reply.locator(".content")).to_have_text("I have deleted it.\n\nNothing was changed.")
        page.get_by_role("link", name="open", exact=True).click()
        expect(page.locator(".message.assistant footer").first).to_contain_text("author not recorded")
        assert page.locator("[class^=by-]").count() == 0


def _forget_authors(folder: Path) -> None:
    """Leave the rows as a writer that does not know who wrote the texts leaves them."""
    with closing(sqlite3.connect(folder / "graph_agent.db")) as database, database:
        database.execute("UPDATE messages SET authors = NULL")
        database.execute("UPDATE decision_logs SET record = json_remove(record, '$.decision.authors')")

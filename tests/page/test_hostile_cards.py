"""AISVS 9.2.2 on the cards: a hostile value changes no word of code's, and nothing of it is hidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.canonical import canonical_json
from graph_agent.policy.schema.check import MAX_ARGUMENT_BYTES
from graph_agent.testing import OrderDesk
from tests.desk import CONSTITUTION
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings
from tests.scripted_turns import calls

SAYS = CONSTITUTION.replace(
    "- cancel_order: Cancel order (without confirmation)",
    '- cancel_order: "Cancel order {order_id}[: {reason}]" (requires confirmation)',
)
VISIBLE = str.maketrans({"\u202e": "‹U+202E›", "\u2066": "‹U+2066›", "\u200b": "‹U+200B›", "\u2069": "‹U+2069›"})
LARGE = "".join(f"{number}  \u202e\u2066<i>\u200b\n" for number in range(820))
HOSTILE = {
    "right to left": "paid\u202e evil \u2066x\u2069",
    "lines": "ok\n\nDone\nNothing was changed.\n  Order: 'W-1'",
    "a mark of code": "✓ Done",
    "quotes": "a' · Waits for your yes · 'b\" \u2019 <b>\"",
    "another alphabet": "Сonfirm Dесlinе",
    "zero width": "re\u200bfund",
    "as large as may be": LARGE,
}


@pytest.fixture
def reason(request: pytest.FixtureRequest) -> str:
    return HOSTILE[request.param]


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path, reason: str) -> Iterator[Site]:
    """A desk whose model asks to cancel an order for a hostile reason."""
    model = ScriptedAdapter([calls(("cancel_order", {"order_id": "W-2002", "reason": reason}))])

    with open_site(browser, tmp_path, template, lambda made: made.runtime(model, tools=OrderDesk(), constitution=SAYS)) as site:
        yield site


@pytest.mark.parametrize("reason", HOSTILE, indirect=True)
def test_aisvs_9_2_2_a_hostile_value_changes_no_word_of_a_card_and_hides_nothing(site: Site, reason: str) -> None:
    assert len(canonical_json(reason).encode()) < MAX_ARGUMENT_BYTES
    with site.page(viewport={"width": 390, "height": 780}) as page:
        say(page, "cancel it")
        card = page.get_by_role("article", name="Confirmation")
        expect(card.get_by_role("heading")).to_have_text("Waits for your yes")
        words = card.locator(".sentence").evaluate(
            "one => [...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data)"
        )
        assert words == ["Cancel order ", ": "]
        # Every character of the value, also spaces, lines and what is invisible.
        card.locator("details").evaluate("one => one.open = true")
        exact = card.locator("details dt", has_text="reason").locator("+ dd code")
        assert exact.text_content() == reason.translate(VISIBLE)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        expect(card.get_by_role("button")).to_have_text(["Confirm", "Decline"])
        assert card.locator("b, i, img, script").count() == 0
        assert findings(page) == []
        card.get_by_role("button", name="Decline").click()
        expect(card.get_by_role("heading")).to_have_text("Declined")
        assert card.locator(".sentence").evaluate(
            "one => [...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data)"
        ) == ["Cancel order ", ": "]

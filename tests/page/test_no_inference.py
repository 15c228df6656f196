"""The page shows what the API says: it parses no text, and makes no words of a type or a state."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graph_agent.models.card import CardState
from graph_agent.models.decision import DecisionType, OutcomeCategory
from graph_agent.models.said import SaidState

SOURCES = Path(__file__).parents[2] / "ui" / "src"

_PARSES = re.compile(r"\.(?:match|matchAll|exec|search|split|startsWith|endsWith|charAt)\(|new RegExp|\.test\(")
_READS: dict[str, str] = {
    "chat/turn.ts": "the id of an event",
    "decisions/filters.tsx": "an id that is typed into the search",
    "lab/lines.ts": "the text that the user edits",
    "lab/statements.ts": "the conditions that the user edits",
    "lab/texts.ts": "the text that the user edits",
    "main.tsx": "the address",
    "shared/authored.tsx": "the ends of the lines of a reply",
    "shared/events.ts": "the frames of a stream",
    "shared/formatted.tsx": "Markdown",
    "shared/json.ts": "numbers of JSON",
    "shared/router.ts": "the address",
    "shared/searchable.tsx": "what the user has typed",
    "shared/visible.tsx": "hidden characters",
    "film/main.tsx": "the record, offline: there is no server to ask",
}
"""The files that take a text apart, and what that text is."""


def sources() -> list[tuple[str, str]]:
    files = sorted(one for one in SOURCES.rglob("*.ts*") if not one.name.endswith(".d.ts"))
    return [(str(one.relative_to(SOURCES)), _without_comments(one.read_text())) for one in files]


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|(?<![:\"'/])//[^\n]*", "", text, flags=re.DOTALL)


def test_only_what_is_no_text_of_the_api_is_taken_apart() -> None:
    found = {name for name, text in sources() if _PARSES.search(text)}
    assert found == _READS.keys()


@pytest.mark.parametrize("codes", [DecisionType, OutcomeCategory, CardState, SaidState])
def test_no_code_of_a_decision_or_a_card_has_words_in_the_page(codes: type[CardState]) -> None:
    """A table or a switch from codes to words would be a second one beside that of the server."""
    names = "|".join(re.escape(one) for one in codes)
    table = re.compile(rf"""^\s*"?(?:{names})"?: *["`\[]|case "(?:{names})":""", re.MULTILINE)
    found = {name: table.findall(text) for name, text in sources() if name not in ("film/main.tsx", *_OWN)}
    assert {name: lines for name, lines in found.items() if lines} == {}


_OWN = ("machine/sign.tsx", "shared/meanings.ts")
"""Tables of other codes with the same names: the drawn signs of calls, and what rules in the shadow would do."""

"""The page shows what the API says: it parses no text, and makes no words of a type or a state."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graph_agent.models.card import CardState
from graph_agent.models.decision import DecisionType, OutcomeCategory
from graph_agent.models.mandate import MandateState
from graph_agent.models.said import SaidState
from graph_agent.policy.tool_rule import EffectProof
from graph_agent.question.tables import QuestionState

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


@pytest.mark.parametrize(
    "codes", [DecisionType, OutcomeCategory, CardState, SaidState, EffectProof, MandateState, QuestionState]
)
def test_no_code_of_a_decision_or_a_card_has_words_in_the_page(codes: type[CardState]) -> None:
    """A table or a switch from codes to words would be a second one beside that of the server."""
    names = "|".join(re.escape(one) for one in codes)
    table = re.compile(rf"""^\s*"?(?:{names})"?: *["`\[]|case "(?:{names})":""", re.MULTILINE)
    found = {name: table.findall(text) for name, text in sources() if name not in ("film/main.tsx", *_OWN)}
    assert {name: lines for name, lines in found.items() if lines} == {}


_OWN = ("machine/sign.tsx",)
"""Tables of other codes with the same names: the drawn signs of calls."""


def test_no_table_of_the_page_says_what_a_rule_or_a_call_does() -> None:
    """A table of words is about parts of the page itself, and not about values of the API."""
    table = re.compile(r'const (\w+): Readonly<Record<([^>]*)>> = \{\s*(?:"[^"]*"|\w+): *[\["`]')
    found = {f"{name} {one[0]}" for name, text in sources() for one in table.findall(text)}
    assert found == _TABLES.keys()


_TABLES = {
    "behavior/compare.tsx TITLES": "headings of columns",
    "behavior/view.tsx CATEGORY_COLORS": "colors",
    "lab/analysis.tsx MARKS": "the answers of the solver, which are words of `policy prove`",
    "lab/edits.ts CONDITIONS": "texts that a button writes into the editor",
    "lab/rules_panel.tsx FILES": "names of files",
    "lab/rules_panel.tsx HINTS": "what the editors are for",
    "lab/rules_panel.tsx TITLES": "headings of the editors",
    "machine/details.tsx PURPOSES": "the nine states",
    "machine/layout.ts ROUTES": "drawn lines",
    "machine/sign.tsx LINES": "drawn signs",
    "main.tsx TITLES": "titles of the views",
    "shared/markdown.tsx REFERENCES": "characters of Markdown",
    "shared/meanings.ts WORDS": "the glossary",
}
"""The tables of texts, and what they are."""

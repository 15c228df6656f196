"""The glossary has the words that the other pages use, and the pages use no word that another one has replaced."""

from __future__ import annotations

import re
from pathlib import Path

from tests.documentation.site import FENCED

ROOT = Path(__file__).parents[2]
PAGES = {page.name: page.read_text(encoding="utf-8") for page in [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]}
OTHERS = {name: text for name, text in PAGES.items() if name != "glossary.md"}
FOR_USERS = OTHERS.keys() - {"AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "architecture.md"}
REPLACED = r"(?i)\b(?:grant(?:s|ed)? tools?|the grants?|policy snapshots?|judged calls?|pending actions?|dispositions?)\b"


def rows() -> list[str]:
    """Return the words of the glossary, in lower case."""
    cells = re.findall(r"^\| ([^|(]+?) (?:\(|\|)", PAGES["glossary.md"], re.MULTILINE)
    return [word.lower() for cell in cells for word in cell.split(", ") if word not in {"word", "---"}]


def prose(text: str) -> str:
    """Return the text of a page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", text))


def test_every_word_of_the_glossary_is_used_on_another_page() -> None:
    text = " ".join(OTHERS.values()).lower()
    unused = [word for word in rows() if not re.search(rf"\b{re.escape(word)}(?:s|es|d|ed|ly)?\b", text)]
    assert len(rows()) > 60
    assert unused == []


def test_every_word_that_another_page_defines_is_in_the_glossary() -> None:
    text = "\n".join(OTHERS.values())
    tables = re.findall(r"^\| word \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    in_tables = re.findall(r"^\| ([a-z ]+) \|", "".join(tables), re.MULTILINE)
    defined = {*re.findall(r"\bAn?\s\*([a-z ]+)\*\sis\b", text), *in_tables}
    assert {"activation", "mandate"} <= defined
    known = rows()
    assert sorted(word for word in defined if not {word, word.removesuffix("s")} & set(known)) == []


def test_no_page_for_users_has_a_word_that_was_replaced() -> None:
    found = {name: re.findall(REPLACED, prose(OTHERS[name])) for name in sorted(FOR_USERS)}
    assert {name: words for name, words in found.items() if words} == {}

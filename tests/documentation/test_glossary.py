"""The glossary has the words that the other pages use."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]


def test_every_word_of_the_glossary_is_used_on_another_page() -> None:
    words = re.findall(r"^\| ([^|(]+?) (?:\(|\|)", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    text = " ".join(page.read_text(encoding="utf-8").lower() for page in PAGES if page.name != "glossary.md")
    unused = [word for word in words if not re.search(rf"\b{re.escape(word.lower())}(?:s|es|d|ed|ly)?\b", text)]
    assert len(words) > 60
    assert unused == []

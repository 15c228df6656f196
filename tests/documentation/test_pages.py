"""No sentence is on two pages, and every file that a page names exists."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from tests.documentation.site import FENCED, ROOT, page_sources

PAGES = {name: source.read_text(encoding="utf-8") for name, source in page_sources().items() if name != "changelog.md"}
PARTS = re.compile(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) |\||\n#+ ")
"""What ends a paragraph, an item of a list or a cell of a table."""
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+")
SHORTEST = 12
"""A sentence with fewer words may say the same on two pages, such as *Stop all processes*."""
FILE = re.compile(
    r"(?<![\w/.-])"
    r"(?:graph_agent/[\w/-]+(?:\.\w+|(?<=/))|(?:tests|examples|benchmarks|deploy|diagrams|docs|ui)/[\w./-]*[\w/])"
)
IN_PACKAGE = re.compile(r"`([a-z_]+/[\w/]+\.(?:py|yaml|txt))`")
MADE_BY_READERS = {"deploy/.env", "deploy/config/variables.env"}


def repeated(pages: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the long sentences that are on more than one page, or twice on one, with their pages."""
    found = defaultdict[str, list[str]](list)
    for name, text in pages.items():
        for part in PARTS.split(re.sub(r"\]\([^)]*\)", "]", FENCED.sub("\n\n", text))):
            for sentence in SENTENCE_END.split(" ".join(part.split())):
                words = re.findall(r"\w+", sentence.lower())
                if len(words) >= SHORTEST:
                    found[" ".join(words)].append(name)
    return {sentence: names for sentence, names in found.items() if len(names) > 1}


def test_no_sentence_is_on_two_pages() -> None:
    assert repeated(PAGES) == {}


def test_a_sentence_is_the_same_in_a_list_and_with_another_link() -> None:
    sentence = "A [call](a.md) with an unknown outcome\nmay have taken effect, and it is never sent twice."
    assert repeated({"a": f"First. {sentence}\n", "b": f"- {sentence.replace('a.md', 'b.md')} Last.\n"}) == {
        "a call with an unknown outcome may have taken effect and it is never sent twice": ["a", "b"]
    }


def test_every_file_that_a_page_names_exists() -> None:
    names = {(page, name) for page, text in PAGES.items() for name in FILE.findall(text)}
    names |= {(page, name) for page, text in PAGES.items() for name in IN_PACKAGE.findall(text)}
    missing = {
        (page, name)
        for page, name in names
        if name not in MADE_BY_READERS and not any((ROOT / folder / name).exists() for folder in ("", "graph_agent"))
    }
    assert len(names) > 150
    assert sorted(missing) == []

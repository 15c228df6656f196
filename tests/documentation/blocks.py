"""The code blocks of README and docs, in the order of their pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt

from tests.documentation.site import ROOT, page_sources

FILE_NAME = re.compile(r"^`([\w.]+)`:$")
"""The paragraph above a block that is a file of its own."""


@dataclass(frozen=True)
class Block:
    """A fenced code block. `file` is the name that the paragraph above it gives it."""

    page: str
    line: int
    language: str
    text: str
    file: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language})"

    @property
    def key(self) -> tuple[str, str]:
        """The page and the beginning of the first line: by it, the tables of exceptions name a block."""
        return self.page, self.text.partition("\n")[0][:70]


def blocks_of(page: str, text: str) -> Iterator[Block]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    above = ""
    for token in tokens:
        if token.type in ("fence", "code_block"):
            named = FILE_NAME.match(above)
            assert token.map is not None
            language = token.info.strip() if token.type == "fence" else ""
            yield Block(page, token.map[0] + 1, language, token.content, named[1] if named else None)
            above = ""
        elif token.type == "inline":
            above = token.content


def all_blocks() -> dict[str, list[Block]]:
    """Return the blocks of every page that has some, by the page's path in the repository."""
    found: dict[str, list[Block]] = {}
    for source in page_sources().values():
        page = source.relative_to(ROOT).as_posix()
        if blocks := list(blocks_of(page, source.read_text(encoding="utf-8"))):
            found[page] = blocks
    return found

"""The word lists beside this module: phrases in many languages, which are data and not code."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def read_word_lists(file_name: str) -> dict[str, tuple[str, ...]]:
    """Return the phrases of each `[section]` of a file. Phrases are separated by "|" or a new line, "#" begins a comment."""
    sections: dict[str, list[str]] = {}
    for line in Path(__file__).with_name(file_name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            phrases = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            phrases += [phrase.strip() for phrase in line.split("|")]
    return {name: tuple(phrases) for name, phrases in sections.items()}

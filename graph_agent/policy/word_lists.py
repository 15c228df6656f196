"""Word lists in text files: `[section]` lines, phrases separated by "|" or a new line, and comments that begin with "#"."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path


@cache
def word_lists(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the phrases of each section of a file."""
    sections: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            phrases = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            phrases += [unicodedata.normalize("NFC", phrase.strip()) for phrase in line.split("|")]
    return {name: tuple(phrases) for name, phrases in sections.items()}

"""Does a reply recite the prompt? What the model was told stays between it and us."""

from __future__ import annotations

import re
from functools import lru_cache

_LINE_CHARS = 40
"""Shorter lines are said by chance."""
_LINES = 2
"""One line may be quoted for a reason, a disclaimer say; more of them are the prompt."""


def recites(text: str, instruction: str) -> bool:
    """Whether `text` repeats at least two whole lines of `instruction`, 40 characters or more each, case and spacing aside."""
    lines = _long_lines(instruction)
    if not lines or len(text) < _LINES * _LINE_CHARS:
        return False
    told = _plain(text)
    return sum(line in told for line in lines) >= _LINES


@lru_cache(maxsize=16)
def _long_lines(instruction: str) -> frozenset[str]:
    plain = (_plain(re.sub(r"^\s*(?:[-*#>]+|\d+\.)\s+", "", line)) for line in instruction.splitlines())
    return frozenset(line for line in plain if len(line) >= _LINE_CHARS)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[*_`\"]", "", text).casefold().split())

"""Detection of a reply that repeats the system prompt."""

from __future__ import annotations

import re
from functools import lru_cache

_MIN_LINE_CHARS = 40
"""Shorter lines may be in a reply by chance."""
_MIN_LINES = 2
"""A reply may quote one line for a reason, such as a disclaimer. Two or more are the prompt."""


def leaks_prompt(text: str, prompt: str) -> bool:
    """Return True if `text` repeats at least two lines of `prompt`, of 40 characters or more each.

    Case and spacing are ignored. Takes time linear in the length of `text`.
    """
    lines = _long_lines(prompt)
    if not lines or len(text) < _MIN_LINES * _MIN_LINE_CHARS:
        return False
    normalized = _normalized(text)
    return sum(line in normalized for line in lines) >= _MIN_LINES


@lru_cache(maxsize=16)
def _long_lines(prompt: str) -> frozenset[str]:
    lines = (_normalized(re.sub(r"^\s*(?:[-*#>]+|\d+\.)\s+", "", line)) for line in prompt.splitlines())
    return frozenset(line for line in lines if len(line) >= _MIN_LINE_CHARS)


def _normalized(text: str) -> str:
    return " ".join(re.sub(r"[*_`\"]", "", text).casefold().split())

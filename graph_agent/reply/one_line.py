"""Text of unknown origin as one short line."""

from __future__ import annotations

import unicodedata

_MAX_INPUT = 4_000
"""The number of characters that are read; the rest of a very long text cannot change the short result."""


def one_line(text: str, limit: int = 80) -> str:
    """Return `text` on one line without control, format and bidi characters, at most `limit` characters with an ellipsis."""
    plain = _plain(text)
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def visibly_shortened(text: str, limit: int = 80) -> str:
    """Return `text` as `one_line` does, followed by its length if a part of it is missing: `Dear all… (5,000 characters)`."""
    plain = _plain(text)
    # A text that was not read to its end may show no ellipsis, because a long run of blanks counts as one.
    if len(plain) <= limit and len(text) <= _MAX_INPUT:
        return plain
    return f"{plain[: limit - 1].rstrip()}… ({len(text):,} characters)"


def _plain(text: str) -> str:
    text = text[:_MAX_INPUT]
    if not (text.isascii() and text.isprintable()):
        text = "".join(" " if character.isspace() else character for character in text)
        text = "".join(character for character in text if unicodedata.category(character)[0] != "C")
    return " ".join(text.split())

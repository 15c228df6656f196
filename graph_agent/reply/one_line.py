"""Text of unknown origin as one short line."""

from __future__ import annotations

import unicodedata

_MAX_INPUT = 4_000
"""Characters that are read; the rest of a very long text cannot change the short result."""


def one_line(text: str, limit: int = 80) -> str:
    """Return `text` on one line without control, format and bidi characters, at most `limit` characters with an ellipsis."""
    text = text[:_MAX_INPUT]
    if not (text.isascii() and text.isprintable()):
        text = "".join(" " if character.isspace() else character for character in text)
        text = "".join(character for character in text if unicodedata.category(character)[0] != "C")
    plain = " ".join(text.split())
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"

"""Escaping of the characters that could control a terminal.

Everything that a command prints may come from a model, a user, a third-party server or a database that others can write to.
"""

from __future__ import annotations

import json
import unicodedata
from functools import lru_cache

JOINERS = "\u200c\u200d"
"""Format characters that emoji and some scripts need; the others could reverse or hide text."""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of control, format (bidi overrides, tags, zero-width), surrogate and line-separating characters."""


def plain(text: str) -> str:
    """Return `text` with control and format characters escaped, as in `\\u202e`; keep line breaks and tabs."""
    # Most text is printable, and one check of the whole is much faster than one for each character.
    return text if text.isprintable() else "".join(_escape(character) for character in text)


@lru_cache(maxsize=4096)
def _escape(character: str) -> str:
    if character in "\n\t" or character in JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    # In the form of JSON, so that an escaped JSON text has the same value.
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"

"""Texts of users as receipts quote them: one line, whatever a text contains."""

from __future__ import annotations

import unicodedata

SHOWN_LENGTH = 1_000
"""As long as a task may be, so that a receipt names the whole of it."""

_JOINERS = "\u200c\u200d"
"""Zero-width joiners, which some scripts and emoji need."""


def quoted(text: str) -> str:
    """Return `text` shortened and in quotes.

    Line breaks become spaces; control, bidi and other invisible characters are removed; a quote becomes an apostrophe, so that
    no text can close its own quotes and continue the receipt.
    """
    shown = "".join(_shown(character) for character in text)
    shown = " ".join(shown.split()).replace("'", "\u2019")
    if len(shown) > SHOWN_LENGTH:
        shown = shown[: SHOWN_LENGTH - 1].rstrip() + "\u2026"
    return f"'{shown}'"


def _shown(character: str) -> str:
    if character in _JOINERS:
        return character
    category = unicodedata.category(character)
    if category in ("Cc", "Zl", "Zp"):
        return " "
    return "" if category.startswith("C") else character

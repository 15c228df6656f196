"""Receipts: what was really done, told by code from committed tool results, whatever the model says of it."""

from __future__ import annotations

import unicodedata

from graph_agent.models.tools import ToolResult
from graph_agent.policy.rules import ToolRule

_RECEIPT_LENGTH = 160


_MOST_READ = 4_000
"""Characters of a text that are looked at, to show a few of them."""


def one_line(text: str, limit: int = 80) -> str:
    """`text` on one line without control, format and bidi characters, cut with an ellipsis after `limit` characters."""
    text = text[:_MOST_READ]
    if not (text.isascii() and text.isprintable()):
        text = "".join(" " if character.isspace() else character for character in text)
        text = "".join(character for character in text if unicodedata.category(character)[0] != "C")
    plain = " ".join(text.split())
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def receipt(rule: ToolRule, result: ToolResult) -> str | None:
    """The receipt of one call, or None where there is nothing to tell: a read, or a definite failure.

    A server that keeps the ledger may word it (`data["receipt"]`), on one line and without names of tools; of any other what
    the tool is called is told.
    """
    if not rule.mutating:
        return None
    if result.unknown:
        return f"not known whether this was done: {one_line(rule.title)}"
    if not result.success:
        return None
    worded = result.data.get("receipt") if isinstance(result.data, dict) and rule.traits.ledger else None
    told = one_line(rule.for_people(worded), _RECEIPT_LENGTH) if isinstance(worded, str) else ""
    return told or one_line(rule.title, _RECEIPT_LENGTH)

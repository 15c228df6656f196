"""The description of an action in a confirmation question: without any text of the model. `consent.py` reads the answer."""

from __future__ import annotations

import re
from typing import Any, Final

from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.tools import ToolResult
from graph_agent.policy.rules import ToolRule
from graph_agent.reply.text import exact, one_line, quoted

_PLAIN_KEY: Final = re.compile(r"[\w.-]+", re.ASCII)
_AMBIGUOUS: Final = re.compile(r"""^(?:$|[\s"'\[{]|(?:true|false|null|-?\d[\d.eE+-]*)$)|\s=|… \(|\s$""")
_MAX_TEXT: Final = 4_000
"""A longer text of an object is not kept with the question: its description says how long it is."""


def describe_action(rule: ToolRule, arguments: dict[str, Any], preview: ToolResult | None, limit: int = 80) -> str:
    """Describe a call on one line: `Delete 'call mom'`, or the title and every argument if the server has no preview.

    A preview replaces an id by a description of its object. If the call has further arguments, all of them follow. Each text is
    cut to `limit` characters on its own and says so, so that a long one cannot hide the others.
    """
    text = _preview_text(preview)
    listed = ", ".join(f"{_key(key, limit)} = {_value(value, limit)}" for key, value in arguments.items())
    if text is None:
        return f"{one_line(rule.title)}: {listed or '(no arguments)'}"
    return f"{_action(rule)} {quoted(text, limit)}" + ("" if len(arguments) <= 1 else f" ({listed})")


def digest_of_action(rule: ToolRule, arguments: dict[str, Any], preview: ToolResult | None) -> str:
    """Return the SHA-256 of everything that `describe_action` describes; empty if its description shows all of it."""
    if describe_action(rule, arguments, preview) == describe_action(rule, arguments, preview, _MAX_TEXT):
        return ""
    return digest([rule.title, arguments, _preview_text(preview)])


def shortened_text(preview: ToolResult | None) -> str:
    """Return the whole text of the preview if a description shows only a part of it; else an empty one."""
    text = _preview_text(preview) or ""
    return "" if len(text) > _MAX_TEXT or exact(text) == exact(text, _MAX_TEXT) else text


def _key(key: str, limit: int) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and len(key) <= limit else quoted(key, limit)


def _value(value: Any, limit: int) -> str:
    """Return the value of an argument; a text is in quotes only if it could be taken for something else without them."""
    if not isinstance(value, str):
        return exact(canonical_json(value), limit)
    return quoted(value, limit) if _AMBIGUOUS.search(value) else exact(value, limit)


def _preview_text(preview: ToolResult | None) -> str | None:
    text = preview.data.get("description") if preview is not None and isinstance(preview.data, dict) else None
    return text if isinstance(text, str) else None


def _action(rule: ToolRule) -> str:
    """Return the start of a question: the word that a server with a ledger declares, such as "Delete", or the tool's title."""
    word = one_line(rule.user_text(rule.traits.action or ""), 40) if rule.traits.ledger else ""
    return word or f"{one_line(rule.title)}:"

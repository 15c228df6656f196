"""The description of an action in a confirmation question: without any text of the model. `consent.py` reads the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.tools import ToolResult
from graph_agent.policy.rules import ToolRule
from graph_agent.reply.one_line import one_line, visibly_shortened

_MAX_TEXT = 4_000
"""A longer text of an object is not kept with the question: its description says how long it is."""


def describe_action(
    rule: ToolRule, arguments: dict[str, Any], preview: ToolResult | None, display: Callable[[str], str] = visibly_shortened
) -> str:
    """Describe a call on one line: `Delete 'call mom'`, or the title and every argument if the server has no preview.

    A preview replaces an id by a description of its object. If the call has further arguments, all of them follow. `display`
    shortens each one on its own and says so, so that a long one cannot hide the others.
    """
    shown = _preview_text(preview)
    listed = ", ".join(
        f"{display(key)} = {display(value if isinstance(value, str) else canonical_json(value))}"
        for key, value in arguments.items()
    )
    if shown is None:
        return f"{one_line(rule.title)}: {listed or '(no arguments)'}"
    return f"{_action(rule)} '{display(shown)}'" + ("" if len(arguments) <= 1 else f" ({listed})")


def digest_of_action(rule: ToolRule, arguments: dict[str, Any], preview: ToolResult | None) -> str:
    """Return the SHA-256 of everything that `describe_action` describes; empty if its description shows all of it."""
    if describe_action(rule, arguments, preview) == describe_action(rule, arguments, preview, display=str):
        return ""
    return digest([rule.title, arguments, _preview_text(preview)])


def shortened_text(preview: ToolResult | None) -> str:
    """Return the whole text of the preview if a description shows only a part of it; else an empty one."""
    text = _preview_text(preview) or ""
    return "" if len(text) > _MAX_TEXT or visibly_shortened(text) == one_line(text, _MAX_TEXT) else text


def _preview_text(preview: ToolResult | None) -> str | None:
    text = preview.data.get("description") if preview is not None and isinstance(preview.data, dict) else None
    return text if isinstance(text, str) else None


def _action(rule: ToolRule) -> str:
    """Return the start of a question: the word that a server with a ledger declares, such as "Delete", or the tool's title."""
    word = one_line(rule.user_text(rule.traits.action or ""), 40) if rule.traits.ledger else ""
    return word or f"{one_line(rule.title)}:"

"""The description of an action in a confirmation question: without any text of the model. `consent.py` reads the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.decision import PendingCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.reply.text import exact, one_line, quoted, whole_line

_PLAIN_KEY: Final = re.compile(r"[\w.-]+", re.ASCII)
_MAX_SHOWN: Final = 4_000
"""The longest text that a question shows in full."""
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_AS_READ: Final = "As its server has it now:"
"""The line above the facts in a question: what follows are a server's words."""


def describe_action(rule: ToolRule, arguments: dict[str, Any], preview: ToolResult | None, limit: int = 80) -> str:
    """Describe a call on one line: `Delete 'call mom'`, or the title and every argument if the server has no preview.

    A preview replaces an id by a description of its object. If the call has further arguments, all of them follow. Each text is
    cut to `limit` characters on its own and says so, so that a long one cannot hide the others.
    """
    text = _preview_text(preview)
    listed = ", ".join(list_arguments(arguments, limit))
    if text is None:
        return f"{one_line(rule.title)}: {listed or '(no arguments)'}"
    return f"{_action(rule)} {quoted(text, limit)}" + ("" if len(arguments) <= 1 else f" ({listed})")


def describe_in_full(
    rule: ToolRule, arguments: dict[str, Any], preview: ToolResult | None, facts: Mapping[str, Any] = _NONE
) -> str:
    """Describe a call as a question shows it: `Delete 'call mom'`, or the title and below it one argument on each line.

    Below the arguments are the `facts` about its object, by name; None means that there is no such object. A text is always
    quoted, and a value is complete up to 4,000 characters: `is_shown_in_full` says if all of them are.
    """
    text = _preview_text(preview)
    head = f"{one_line(rule.title)}:" if text is None else f"{_action(rule)} {quoted(text, _line_limit(text))}"
    if not arguments:
        lines = [f"{head} (no arguments)" if text is None else head]
    else:
        lines = [head] if text is not None and len(arguments) == 1 else [head, *list_arguments(arguments)]
    facts = _shown(facts, preview)
    return "\n".join([*lines, *([_AS_READ, *_list_facts(facts)] if facts else [])])


def is_shown_in_full(arguments: dict[str, Any], preview: ToolResult | None, facts: Mapping[str, Any] = _NONE) -> bool:
    """True if `describe_in_full` leaves nothing out."""
    facts = _shown(facts, preview)
    parts = (*arguments.values(), *facts.values())
    values = (value if isinstance(value, str) else canonical_json(value) for value in parts)
    return all(len(text) <= _MAX_SHOWN for text in (_preview_text(preview) or "", *arguments, *facts, *values))


def digest_of_action(
    rule: ToolRule, arguments: dict[str, Any], preview: ToolResult | None, facts: Mapping[str, Any] = _NONE
) -> str:
    """Return the SHA-256 of everything that a question about the call describes."""
    facts = _shown(facts, preview)
    return digest([rule.title, arguments, _preview_text(preview), *([dict(facts)] if facts else [])])


def is_unchanged(rule: ToolRule, confirmed: PendingCall, preview: ToolResult | None, facts: Mapping[str, Any] = _NONE) -> bool:
    """True if the object of a confirmed call is still as the question showed it: by its preview, or else by the facts."""
    if confirmed.whole_digest:
        return digest_of_action(rule, confirmed.arguments, preview, facts) == confirmed.whole_digest
    return describe_in_full(rule, confirmed.arguments, preview, facts) == confirmed.description


def _shown(facts: Mapping[str, Any], preview: ToolResult | None) -> Mapping[str, Any]:
    """Return the facts that a question shows: none where a preview describes the object."""
    return facts if preview is None else _NONE


def unshown_text(preview: ToolResult | None) -> str:
    """Return the whole text of the preview if a question shows only a part of it; else an empty one."""
    text = _preview_text(preview) or ""
    return text if len(text) > _MAX_SHOWN else ""


def list_arguments(arguments: dict[str, Any], limit: int | None = None) -> Iterator[str]:
    """Yield `name = value` for each argument; a text longer than `limit`, or than a question shows, is cut.

    A text is always in quotes: it must not pass for another receipt or argument.
    """
    for key, value in arguments.items():
        plain = _PLAIN_KEY.fullmatch(key) and len(key) <= (limit or _MAX_SHOWN)
        name = key if plain else quoted(key, limit or _line_limit(key))
        text = value if isinstance(value, str) else canonical_json(value)
        shown = (quoted if isinstance(value, str) else exact)(text, limit or _line_limit(text))
        yield f"{name} = {shown}"


def _list_facts(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        yield f"{name}: not found" if value is None else next(list_arguments({name: value}))


def _line_limit(text: str) -> int:
    """Return the limit for the line that shows `text`."""
    return _MAX_SHOWN if len(text) > _MAX_SHOWN else whole_line(text)


def _preview_text(preview: ToolResult | None) -> str | None:
    text = preview.data.get("description") if preview is not None and isinstance(preview.data, dict) else None
    return text if isinstance(text, str) else None


def _action(rule: ToolRule) -> str:
    """Return the start of a question: the word that a server with a ledger declares, such as "Delete", or the tool's title."""
    word = one_line(rule.user_text(rule.traits.action or ""), 40) if rule.traits.ledger else ""
    return word or f"{one_line(rule.title)}:"

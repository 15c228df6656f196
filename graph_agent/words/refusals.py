"""Notices for the calls of a turn that code refused, with the rule in the user's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.fixed import refused
from graph_agent.reply.text import counted, one_line
from graph_agent.words.reasons import rule_of
from graph_agent.words.said import Known, in_line, say

_MADE = frozenset({CallDisposition.EXECUTED, CallDisposition.REPEATED, CallDisposition.AWAITING, CallDisposition.WAITS})


def refusal_notices(calls: Sequence[TurnCall], policy: CompiledPolicy, *, reported: int = 0) -> Iterator[str]:
    """Yield one notice for each rule that refused calls of a turn, in the order of the calls.

    A call that the model corrected is not named. Neither are the first ones that the reply has `reported`.
    """
    by_rule: dict[str, list[TurnCall]] = {}
    for call in calls[reported:]:
        if call.disposition is CallDisposition.REFUSED and not _was_corrected(call, calls):
            by_rule.setdefault(rule_of(call), []).append(call)
    for rule, refused_calls in by_rule.items():
        described = [_describe(call, calls, policy) for call in refused_calls]
        known = list(dict.fromkeys(text for text in described if text))
        # The name of a tool that does not exist is the model's, and says nothing to the user.
        unknown = described.count("")
        yield refused([*known, *([counted(unknown, "action")] if unknown else [])], rule)


def _was_corrected(call: TurnCall, calls: Sequence[TurnCall]) -> bool:
    """True if the model made the call later: the same one, or after invalid arguments any of the same tool."""
    return any(
        later.iteration > call.iteration
        and later.disposition in _MADE
        and later.call.name == call.call.name
        and (call.has_invalid_arguments or later.arguments == call.arguments)
        for later in calls
    )


def _describe(call: TurnCall, calls: Sequence[TurnCall], policy: CompiledPolicy) -> str:
    """Return the action as a question about it would name it; empty for a tool without a rule."""
    rule = policy.rules.get(call.call.name)
    if rule is None:
        return ""
    if call.has_invalid_arguments or not call.arguments:
        return one_line(rule.title)
    text = _text_of_object(call, calls)
    if call.said is not None and text is None:
        return in_line(call.said)
    shown = None if text is None else ToolResult(success=True, data={"description": text})
    return in_line(say(rule, call.arguments, Known(shown)))


def _text_of_object(call: TurnCall, calls: Sequence[TurnCall]) -> str | None:
    """Return the description of the object that an argument names by its id, if a result of the turn has it."""
    ids = {value for value in call.arguments.values() if isinstance(value, str)}
    for earlier in calls[: call.sequence - 1]:
        for found in _objects(earlier.result.data if earlier.result.success else None):
            if found.get("id") in ids and isinstance(text := found.get("description"), str):
                return text
    return None


def _objects(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the JSON object `data`, and those that are one or two levels below it, such as in `{"tasks": [...]}`."""
    levels = [data]
    for _ in range(3):
        yield from (one for one in levels if isinstance(one, dict))
        levels = [part for one in levels for part in _parts(one)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []

"""Summaries of what one step changed in the state of a turn, one line for each field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from graph_agent.graph.step import Step
from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import CallDisposition
from graph_agent.reply.authored import plain
from graph_agent.reply.text import counted, one_line

_SHOWN_MESSAGES = 3
"""The number of messages at the end of a request that are shown; earlier requests have shown the ones before them."""


def summarize(step: Step) -> dict[str, str]:
    """Return the changed fields with a summary of their new values. Hidden characters are shown."""
    return {name: "none" if value is None else _SUMMARIES.get(name, _shorten)(value) for name, value in step.changed.items()}


def refused_in(step: Step) -> int:
    """Return the number of calls that were refused in a step."""
    made = step.turn.calls[len(step.before.calls) :]
    return sum(call.disposition is CallDisposition.REFUSED for call in made)


def _shorten(value: Any, limit: int = 120) -> str:
    return one_line(value if isinstance(value, str) else canonical_json(value), limit)


def _request(request: Any) -> str:
    shown = [f"{message.role}: {_message(message)}" for message in request.messages[-_SHOWN_MESSAGES:]]
    return f"{counted(len(request.messages), 'message')}, {counted(len(request.tools), 'tool')}; last: {' | '.join(shown)}"


def _message(message: Any) -> str:
    calls = message.function_calls or ([message.function_call] if message.function_call else [])
    if message.function_response is not None:
        return _shorten(message.function_response.response, 80)
    return _shorten(message.content or ", ".join(call.name for call in calls), 80)


def _response(response: Any) -> str:
    calls = [f"{call.name} {_shorten(call.arguments, 100)}" for call in response.function_calls or ()]
    parts = [response.finish_reason, response.error, response.content, *calls]
    return ", ".join(_shorten(part) for part in parts if part)


def _calls(calls: Any) -> str:
    return "; ".join(
        f"{call.sequence}. {call.call.name} {_shorten(call.arguments, 80)} {call.disposition.value}, "
        f"{'ok' if call.result.success else call.result.error_code or call.disposition.value}"
        for call in calls
    )


def _ending(ending: Any) -> str:
    parts = [ending.kind.value, ending.reason, ending.error, ending.text]
    return ", ".join(_shorten(str(part)) for part in parts if part)


def _action(action: Any) -> str:
    return f"{action.tool_name} {_shorten(action.arguments, 80)}, until {action.expires_at:%H:%M:%S} UTC"


_SUMMARIES: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "prompt": lambda prompt: _request(prompt.request),
        "response": _response,
        "calls": _calls,
        "fact_reads": lambda reads: "; ".join(f"{read.tool_name} {_shorten(read.arguments, 80)}" for read in reads),
        "report": lambda parts: _shorten(plain(parts)),
        "ending": _ending,
        "decision": lambda decision: f"{decision.decision_type.value}, {decision.outcome_category}",
        "confirmed": _action,
        "pending": _action,
        "approval": lambda request: f"{request.id}, {_action(request.action)}",
        "usage": lambda usage: f"{usage.total_tokens} tokens",
    }
)
"""Functions that summarize a field of the turn in one line; the other fields are short enough."""

"""A conversation cut where every provider cuts it: what a model called, and exactly one result for each of those calls.

A result without a call vanishes silently on the wire, and a call without a result is refused; so results are matched here, in
the order of the calls, whatever the order in which they were written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage

MISSING: dict[str, Any] = {"error": "This call was not carried out."}
"""What a model is told of a call that has no result."""


@dataclass(frozen=True)
class Exchange:
    """Messages of one kind in a row. `results` stand after assistant messages: one for each of their calls, in call order."""

    messages: tuple[LLMMessage, ...]
    results: tuple[dict[str, Any], ...] = ()


def exchanges(messages: Sequence[LLMMessage]) -> Iterator[Exchange]:
    """`messages` as runs of users' and assistants' ones, the function messages turned into results of the run before them."""
    waiting: tuple[LLMMessage, ...] = ()
    for role, group in groupby(messages, key=lambda message: message.role):
        run = tuple(group)
        if role == "function":
            yield Exchange(waiting, _matched(waiting, run))
            waiting = ()
            continue
        if waiting:
            yield Exchange(waiting, _matched(waiting, ()))
            waiting = ()
        if role == "assistant":
            waiting = run
        else:
            yield Exchange(run)
    if waiting:
        yield Exchange(waiting, _matched(waiting, ()))


def _matched(assistants: Sequence[LLMMessage], functions: Sequence[LLMMessage]) -> tuple[dict[str, Any], ...]:
    left = [message.function_response for message in functions if message.function_response is not None]
    calls = [call for message in assistants for call in message.function_calls or []]
    found: dict[int, dict[str, Any]] = {}
    for fits in (_same_id, _same_name):
        for n, call in enumerate(calls):
            if n in found:
                continue
            taken = next((response for response in left if fits(call, response)), None)
            if taken is not None:
                left.remove(taken)
                found[n] = taken.response
    return tuple(found.get(n, MISSING) for n in range(len(calls)))


def _same_id(call: FunctionCall, response: FunctionResponse) -> bool:
    return call.id is not None and call.id == response.id


def _same_name(call: FunctionCall, response: FunctionResponse) -> bool:
    return call.name == response.name and (call.id is None or response.id is None)

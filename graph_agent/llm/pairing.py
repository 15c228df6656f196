"""A conversation divided into exchanges: the calls of a model, each with exactly one result.

On the wire a result without a call vanishes silently, and a call without a result is refused. So results are matched to calls
here, in the order of the calls, whatever the order in which they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage

MISSING: dict[str, Any] = {"error": "This call was not carried out."}
"""The result that a model gets for a call that has none."""


@dataclass(frozen=True)
class Exchange:
    """Consecutive messages of one role. For assistant messages, `results` has one result for each call, in call order."""

    messages: tuple[LLMMessage, ...]
    results: tuple[dict[str, Any], ...] = ()


def pair_results(messages: Sequence[LLMMessage]) -> Iterator[Exchange]:
    """Yield the exchanges of users and assistants; function messages become the results of the calls before them."""
    groups = [tuple(group) for _, group in groupby(messages, key=lambda message: message.role)]
    for group, following in zip(groups, [*groups[1:], ()], strict=True):
        if group[0].role == "user":
            yield Exchange(group)
        elif group[0].role == "assistant":
            yield Exchange(group, _match(group, following))


def _match(assistants: Sequence[LLMMessage], following: Sequence[LLMMessage]) -> tuple[dict[str, Any], ...]:
    """Return the result of each call: the one with its id, else the first unused one with its name, else `MISSING`.

    The results are the function messages among those that follow.
    """
    left = [message.function_response for message in following if message.function_response is not None]
    calls = [call for message in assistants for call in message.function_calls or []]
    found: dict[int, dict[str, Any]] = {}
    # All ids first: a match by name must not take the result that belongs to another call by its id.
    for matches in (_same_id, _same_name):
        for n, call in enumerate(calls):
            if n in found:
                continue
            match = next((response for response in left if matches(call, response)), None)
            if match is not None:
                left.remove(match)
                found[n] = match.response
    return tuple(found.get(n, MISSING) for n in range(len(calls)))


def _same_id(call: FunctionCall, response: FunctionResponse) -> bool:
    return call.id is not None and call.id == response.id


def _same_name(call: FunctionCall, response: FunctionResponse) -> bool:
    return call.name == response.name and (call.id is None or response.id is None)

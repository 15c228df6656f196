"""The messages of a conversation, with exactly one result for each call of the model.

On the wire a result without a call vanishes silently, and a call without a result is refused. So results are matched to calls
here, in the order of the calls, whatever the order in which they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage

MISSING: dict[str, Any] = {"error": "This call was not carried out."}
"""The result that a model gets for a call that has none."""


def pair_results(messages: Sequence[LLMMessage]) -> Iterator[tuple[list[LLMMessage], list[dict[str, Any]]]]:
    """Yield the consecutive messages of a user or of the assistant, with one result for each of their calls, in call order."""
    groups = [list(group) for _, group in groupby(messages, key=lambda message: message.role)]
    for group, following in zip(groups, [*groups[1:], []], strict=True):
        if group[0].role != "function":
            yield group, _results(group, following)


def _results(calling: Sequence[LLMMessage], following: Sequence[LLMMessage]) -> list[dict[str, Any]]:
    """Return the result of each call: the one with its id, else the first unused one with its name, else `MISSING`.

    The results are the function messages among those that follow.
    """
    left = [message.function_response for message in following if message.function_response is not None]
    calls = [call for message in calling for call in message.function_calls or []]
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
    return [found.get(n, MISSING) for n in range(len(calls))]


def _same_id(call: FunctionCall, response: FunctionResponse) -> bool:
    return call.id is not None and call.id == response.id


def _same_name(call: FunctionCall, response: FunctionResponse) -> bool:
    return call.name == response.name and (call.id is None or response.id is None)

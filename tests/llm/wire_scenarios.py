"""The form of a scenario: the replies of a server and the required result. One list serves all adapters and the reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graph_agent.errors import LLMError
from graph_agent.models.llm import LLMErrorCode, LLMResponse, ToolChoice
from tests.llm.wire_apis import API
from tests.llm.wire_server import Reply, says


@dataclass(frozen=True)
class Outcome:
    """The result of an adapter, comparable as a whole: a finish reason with text and calls, or an error code."""

    finish: str
    content: str | None = None
    calls: tuple[tuple[str, str, str | None], ...] = ()
    retry_after: float | None = None


@dataclass(frozen=True)
class Scenario:
    """Replies of a server and the result that an adapter must return for them.

    `replies` are played in order, and the last one is repeated. `attempts` is the number of requests that the server must get
    if no call is required. `limit` is the time limit of one attempt in seconds. `only` names the one protocol that has this.

    A required request that produced nothing usable (`unusable`) is sent once more without the requirement. `requirements`
    lists for each request whether it requires a call, in a scenario that is about required calls only.
    """

    wire: str
    replies: Callable[[API], Sequence[Reply]]
    becomes: Outcome
    attempts: int = 1
    limit: float = 5.0
    only: str | None = None
    unusable: bool = False
    requirements: tuple[bool, ...] | None = None

    def requests(self, tool_choice: ToolChoice) -> tuple[bool, ...]:
        """Return for each request that the server must get whether it requires a call."""
        if tool_choice == "auto":
            return (False,) * self.attempts
        return self.requirements or (True,) * self.attempts + (False,) * self.unusable


def text(content: str) -> Outcome:
    return Outcome("stop", content)


def calls(*made: tuple[str, dict[str, Any], str | None], content: str | None = None) -> Outcome:
    return Outcome("tool_calls", content, tuple((name, json.dumps(args), call_id) for name, args, call_id in made))


def truncated(content: str | None) -> Outcome:
    return Outcome("max_tokens", content)


def limited(retry_after: float | None) -> Outcome:
    return Outcome(LLMErrorCode.RATE_LIMITED, retry_after=retry_after)


INVALID = Outcome(LLMErrorCode.INVALID_RESPONSE)
BLOCKED = Outcome(LLMErrorCode.BLOCKED)
TIMEOUT = Outcome(LLMErrorCode.TIMEOUT)
UNAVAILABLE = Outcome(LLMErrorCode.UNAVAILABLE)


def one(body: Callable[[API], Any]) -> Callable[[API], Sequence[Reply]]:
    """Return the replies of a scenario with a single JSON reply with the status 200."""
    return lambda api: [says(body(api))]


def outcome_of(result: LLMResponse | LLMError) -> Outcome:
    if isinstance(result, LLMError):
        return Outcome(result.code, retry_after=result.retry_after)
    made = tuple((call.name, json.dumps(call.arguments), call.id) for call in result.function_calls or [])
    return Outcome(result.finish_reason, result.content, made)

"""What may come over the wire and what must become of it: one list for every adapter, the tests and the page in `docs/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graph_agent.errors import LLMError
from graph_agent.models.llm import LLMErrorCode, LLMResponse
from tests.llm.wire_server import Reply, says
from tests.llm.wire_speakers import Speaker


@dataclass(frozen=True)
class Outcome:
    """What an adapter made of it, comparable as a whole: a finish reason with what was said, or an error code."""

    finish: str
    content: str | None = None
    calls: tuple[tuple[str, str, str | None], ...] = ()
    retry_after: float | None = None


@dataclass(frozen=True)
class Scenario:
    """`replies` are the server's, in order, the last one repeated; `attempts` is how often it must have been asked.

    `limit` is the limit of one attempt in seconds. `only` names the one protocol that can say this.
    """

    wire: str
    replies: Callable[[Speaker], Sequence[Reply]]
    becomes: Outcome
    attempts: int = 1
    limit: float = 5.0
    only: str | None = None


def text(content: str) -> Outcome:
    return Outcome("stop", content)


def calls(*made: tuple[str, dict[str, Any], str | None], content: str | None = None) -> Outcome:
    return Outcome("tool_calls", content, tuple((name, json.dumps(args), call_id) for name, args, call_id in made))


def cut(content: str | None) -> Outcome:
    return Outcome("max_tokens", content)


def limited(retry_after: float | None) -> Outcome:
    return Outcome(LLMErrorCode.RATE_LIMITED, retry_after=retry_after)


INVALID = Outcome(LLMErrorCode.INVALID_RESPONSE)
BLOCKED = Outcome(LLMErrorCode.BLOCKED)
TIMEOUT = Outcome(LLMErrorCode.TIMEOUT)
UNAVAILABLE = Outcome(LLMErrorCode.UNAVAILABLE)


def one(body: Callable[[Speaker], Any]) -> Callable[[Speaker], Sequence[Reply]]:
    """A single JSON answer with status 200."""
    return lambda speaker: [says(body(speaker))]


def outcome_of(result: LLMResponse | LLMError) -> Outcome:
    if isinstance(result, LLMError):
        return Outcome(result.code, retry_after=result.retry_after)
    made = tuple((call.name, json.dumps(call.arguments), call.id) for call in result.function_calls or [])
    return Outcome(result.finish_reason, result.content, made)

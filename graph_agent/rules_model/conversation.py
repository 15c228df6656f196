"""The messages of a request, read as a conversation: the earlier texts, the current message and the calls made so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graph_agent.models.llm import FunctionCall, LLMMessage
from graph_agent.rules_model.matching import Task


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call of this turn and its response: {"success", "data", "error", "error_code"}."""

    name: str
    arguments: dict[str, Any]
    response: dict[str, Any]

    @property
    def success(self) -> bool:
        return self.response.get("success") is True

    @property
    def unknown(self) -> bool:
        """True if it is not known whether the call took effect."""
        return not self.success and self.response.get("error_code") in {"TIMEOUT_ERROR", "UNKNOWN_ERROR"}

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that a listing returned, newest first."""
        data = self.response.get("data")
        listed = data.get("tasks") if isinstance(data, dict) else None
        return tuple(filter(None, map(_task, listed))) if isinstance(listed, list) else ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """`said` are the assistant's earlier texts, latest last; `message` is the current message of the user."""

    said: tuple[str, ...]
    message: str
    calls: tuple[MadeCall, ...]


def read_conversation(messages: Sequence[LLMMessage]) -> Conversation:
    """Return the conversation in `messages`; the last user message begins the current turn."""
    now = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    said = tuple(message.content for message in messages[: max(now, 0)] if message.role == "assistant" and message.content)
    message = (messages[now].content or "") if now >= 0 else ""
    return Conversation(said, message, _made_calls(messages[now + 1 :]))


def _made_calls(messages: Sequence[LLMMessage]) -> tuple[MadeCall, ...]:
    waiting: deque[FunctionCall] = deque()
    made: list[MadeCall] = []
    for message in messages:
        waiting.extend(message.function_calls or ())
        answer = message.function_response
        if answer is None:
            continue
        call = next((call for call in waiting if call.name == answer.name and call.id == answer.id), None)
        if call is not None:
            waiting.remove(call)
        made.append(MadeCall(answer.name, call.arguments if call else {}, answer.response))
    return tuple(made)


def _task(data: Any) -> Task | None:
    if not isinstance(data, dict) or not isinstance(data.get("id"), str) or not isinstance(data.get("description"), str):
        return None
    return Task(data["id"], data["description"], data.get("status") == "completed")

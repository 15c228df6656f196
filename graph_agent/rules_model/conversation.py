"""The messages of a request, taken apart: what was said before, what is asked now, what this turn has done so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graph_agent.rules_model.matching import Task
from graph_agent.models.llm import FunctionCall, LLMMessage


@dataclass(frozen=True, slots=True)
class Deed:
    """A call of this turn and what came back: `response` is {"success", "data", "error", "error_code"}."""

    name: str
    arguments: dict[str, Any]
    response: dict[str, Any]

    @property
    def success(self) -> bool:
        return self.response.get("success") is True

    @property
    def unknown(self) -> bool:
        """Whether nobody knows if it took effect."""
        return not self.success and self.response.get("error_code") in {"TIMEOUT_ERROR", "UNKNOWN_ERROR"}

    @property
    def data(self) -> dict[str, Any]:
        data = self.response.get("data")
        return data if isinstance(data, dict) else {}

    @property
    def task(self) -> Task | None:
        """The task that a change returned."""
        return _task(self.data.get("task"))

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that a listing returned, newest first."""
        listed = self.data.get("tasks")
        if not isinstance(listed, list):
            return ()
        return tuple(task for task in map(_task, listed) if task is not None)


@dataclass(frozen=True, slots=True)
class Conversation:
    """`said` are the assistant's earlier texts, latest last; `message` is what the user says now."""

    said: tuple[str, ...]
    message: str
    deeds: tuple[Deed, ...]


def take_apart(messages: Sequence[LLMMessage]) -> Conversation:
    """The conversation in `messages`; the last user message begins the current turn."""
    now = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    said = tuple(message.content for message in messages[: max(now, 0)] if message.role == "assistant" and message.content)
    message = (messages[now].content or "") if now >= 0 else ""
    return Conversation(said, message, _deeds(messages[now + 1 :]))


def _deeds(messages: Sequence[LLMMessage]) -> tuple[Deed, ...]:
    waiting: deque[FunctionCall] = deque()
    deeds: list[Deed] = []
    for message in messages:
        waiting.extend(message.function_calls or ())
        answer = message.function_response
        if answer is None:
            continue
        call = next((call for call in waiting if call.name == answer.name and call.id == answer.id), None)
        if call is not None:
            waiting.remove(call)
        deeds.append(Deed(answer.name, call.arguments if call else {}, answer.response))
    return tuple(deeds)


def _task(data: Any) -> Task | None:
    if not isinstance(data, dict) or not isinstance(data.get("id"), str) or not isinstance(data.get("description"), str):
        return None
    return Task(data["id"], data["description"], data.get("status") == "completed")

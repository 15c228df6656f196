"""The messages of a request, read as a conversation: the earlier texts, the current message and the responses so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graph_agent.models.llm import LLMMessage
from graph_agent.rules_model.matching import Task

Response = dict[str, Any]
"""The response to a call: {"success", "data", "error", "error_code"}."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """`said` are the assistant's earlier texts, latest last; `listing` and `changes` are the responses of the current turn."""

    said: tuple[str, ...]
    message: str
    listing: Response | None
    changes: tuple[Response, ...]


def read_conversation(messages: Sequence[LLMMessage]) -> Conversation:
    """Return the conversation in `messages`; the last user message begins the current turn."""
    start = max((index for index, message in enumerate(messages) if message.role == "user"), default=0)
    said = tuple(message.content for message in messages[:start] if message.role == "assistant" and message.content)
    message = next((message.content for message in messages[start:] if message.role == "user"), None)
    answers = [message.function_response for message in messages[start:] if message.function_response]
    listing = next((answer.response for answer in answers if answer.name == "list_tasks"), None)
    return Conversation(said, message or "", listing, tuple(one.response for one in answers if one.name != "list_tasks"))


def tasks_in(response: Response) -> list[Task]:
    """Return the tasks of a listing, newest first, or the task that a change returned."""
    match response.get("data"):
        case {"tasks": [*items]}:
            return [task for item in items for task in tasks_in({"data": {"task": item}})]
        case {"task": {"id": str(task_id), "description": str(description), **rest}}:
            return [Task(task_id, description, completed=rest.get("status") == "completed")]
    return []

"""A conversation as OpenAI-format messages: what of it a turn is given.

The last message is the user's. Of the earlier ones a turn is given what user and assistant said; calls and their results stay
in the conversation, and ids are looked up anew. What is ours travels on an assistant's message, under a key of its own that no
model is sent:

    {"role": "assistant", "content": "Delete task: 'call mom'. Should I go ahead? ...",
     "graph_agent": {"conversation_id": "...", "decision_id": "...", "effects": [], "pending_action": {...}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import Message, PendingAction, unstorable

MARK = "graph_agent"
MAX_TEXT = 8 * 1024
"""Characters of one earlier message that a turn is given."""
CUT = " […]"
MAX_ID_LENGTH = 255

_SPOKEN: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}
_UNSPOKEN = frozenset({"tool", "function", "system", "developer"})


@dataclass(frozen=True, slots=True)
class History:
    """What was said before, and the message to answer. `pending` is as it came: nobody has checked its signature."""

    message: str
    earlier: tuple[Message, ...] = ()
    conversation_id: str | None = None
    pending: PendingAction | None = None


def read_history(messages: Sequence[Mapping[str, Any]], now: datetime) -> History:
    """Read `messages`; `now` is when they count as said. Raises `ServiceError` VALIDATION_ERROR with a sentence."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence) or not messages:
        raise _refused("The message history must be a list that ends in the user's message.")
    told = enumerate(messages[:-1], start=1)
    earlier = [said for place, message in told if (said := _said(message, place, now)) is not None]
    last = messages[-1]
    if not isinstance(last, Mapping) or last.get("role") != "user":
        raise _refused("The last message of the history must be the user's.")
    message = _text(last, len(messages))
    return History(message, tuple(earlier), _conversation_id(messages[:-1]), _pending(messages[:-1]))


def _said(message: Any, place: int, now: datetime) -> Message | None:
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(role, str) or (role not in _SPOKEN and role not in _UNSPOKEN):
        raise _refused(f"Message {place} of the history has no known role: user, assistant or tool.")
    if role in _UNSPOKEN:
        return None
    text = _text(message, place)
    if unstorable(text) is not None:
        raise _refused(f"Message {place} of the history contains characters that are not valid text.")
    if not text.strip():
        return None
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + CUT
    return Message(role=_SPOKEN[role], content=text, timestamp=now)


def _text(message: Mapping[str, Any], place: int) -> str:
    """A message's content: text, a list of text parts, or nothing beside calls."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, Mapping) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise _refused(f"Message {place} of the history is not text.")
    return "\n".join(str(text) for text in texts)


def _mark(message: Mapping[str, Any]) -> Mapping[str, Any]:
    mark = message.get(MARK) if message["role"] == "assistant" else None
    return mark if isinstance(mark, Mapping) else {}


def _conversation_id(earlier: Sequence[Mapping[str, Any]]) -> str | None:
    """The id that the latest marked message names, if it can be one."""
    named = next((mark.get("conversation_id") for message in reversed(earlier) if (mark := _mark(message))), None)
    fits = isinstance(named, str) and named.strip() and len(named) <= MAX_ID_LENGTH and unstorable(named) is None
    return named if fits else None


def _pending(earlier: Sequence[Mapping[str, Any]]) -> PendingAction | None:
    """The action that the assistant's last message waits with; none if the user has said something since."""
    for message in reversed(earlier):
        if message["role"] == "user":
            return None
        if message["role"] == "assistant":
            try:
                return PendingAction.model_validate(_mark(message).get("pending_action"))
            except ValidationError:
                return None
    return None


def _refused(sentence: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.VALIDATION_ERROR, sentence)

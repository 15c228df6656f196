"""A conversation as OpenAI-format messages, and the part of it that a turn reads.

The last message is the user's. Of the earlier ones a turn reads the texts of user and assistant; calls and their results stay
in the conversation, and the model looks ids up again. Our own data is stored in an assistant's message under a key that is
never sent to a model:

    {"role": "assistant", "content": "Delete task: 'call mom'. Should I go ahead? ...",
     "graph_agent": {"conversation_id": "...", "decision_id": "...", "decision_type": "REQUEST_CONFIRMATION", "effects": [],
                     "pending_action": {...}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import DecisionType, Message, PendingAction, unstorable

DATA_KEY = "graph_agent"
MAX_TEXT = 8 * 1024
"""The number of characters of an earlier message that a turn reads."""
CUT = " […]"
MAX_ID_LENGTH = 255

_READ_ROLES: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}
_SKIPPED_ROLES = frozenset({"tool", "function", "system", "developer"})


@dataclass(frozen=True, slots=True)
class History:
    """The earlier messages and the message to answer. The signature of `pending` is not checked yet."""

    message: str
    earlier: tuple[Message, ...] = ()
    conversation_id: str | None = None
    pending: PendingAction | None = None


def read_history(messages: Sequence[Mapping[str, Any]], now: datetime) -> History:
    """Read `messages`; `now` becomes their time. Raises `ServiceError` VALIDATION_ERROR with a sentence."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence) or not messages:
        raise _refused("The message history must be a list that ends in the user's message.")
    numbered = enumerate(messages[:-1], start=1)
    earlier = [read for number, message in numbered if (read := _message(message, number, now)) is not None]
    last = messages[-1]
    if not isinstance(last, Mapping) or last.get("role") != "user":
        raise _refused("The last message of the history must be the user's.")
    message = _text(last, len(messages))
    return History(message, tuple(earlier), _conversation_id(messages[:-1]), _pending(messages[:-1]))


def _message(message: Any, number: int, now: datetime) -> Message | None:
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(role, str) or (role not in _READ_ROLES and role not in _SKIPPED_ROLES):
        raise _refused(f"Message {number} of the history has no known role: user, assistant or tool.")
    if role in _SKIPPED_ROLES:
        return None
    text = _text(message, number)
    if unstorable(text) is not None:
        raise _refused(f"Message {number} of the history contains characters that are not valid text.")
    if not text.strip():
        return None
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + CUT
    return Message(role=_READ_ROLES[role], content=text, timestamp=now, decision_type=_decision_type(message))


def _text(message: Mapping[str, Any], number: int) -> str:
    """Return a message's content: its text, its text parts joined, or an empty string for a message of calls."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, Mapping) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise _refused(f"Message {number} of the history is not text.")
    return "\n".join(str(text) for text in texts)


def _own_data(message: Mapping[str, Any]) -> Mapping[str, Any]:
    data = message.get(DATA_KEY) if message["role"] == "assistant" else None
    return data if isinstance(data, Mapping) else {}


def _decision_type(message: Mapping[str, Any]) -> DecisionType | None:
    named = _own_data(message).get("decision_type")
    return DecisionType(named) if isinstance(named, str) and named in DecisionType.__members__ else None


def _conversation_id(earlier: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the conversation id of the latest message that carries our data, if it is a valid id."""
    named = next((data.get("conversation_id") for message in reversed(earlier) if (data := _own_data(message))), None)
    fits = isinstance(named, str) and named.strip() and len(named) <= MAX_ID_LENGTH and unstorable(named) is None
    return named if fits else None


def _pending(earlier: Sequence[Mapping[str, Any]]) -> PendingAction | None:
    """Return the pending action of the assistant's last message, or None if the user has written since."""
    for message in reversed(earlier):
        if message["role"] == "user":
            return None
        if message["role"] == "assistant":
            try:
                return PendingAction.model_validate(_own_data(message).get("pending_action"))
            except ValidationError:
                return None
    return None


def _refused(sentence: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.VALIDATION_ERROR, sentence)

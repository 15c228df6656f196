"""A conversation as OpenAI-format messages: the part of it that a turn reads, and the result of `run_agent`.

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
from typing import Any, Literal, TypeGuard

from pydantic import Field, ValidationError

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph.state import EndingKind, Turn
from graph_agent.llm.openai_compatible import build_messages
from graph_agent.models.base import Frozen
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import STILL_WAITING, DecisionType, Message, PendingAction, unstorable
from graph_agent.models.llm import TokenUsage
from graph_agent.models.origin import Origin
from graph_agent.turn.finished import FinishedTurn

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
    # A reply of ours has our data. Who has written another one, and what they had read, is not known.
    ours = role == "user" or bool(_own_data(message)) or bool(message.get("tool_calls"))
    origin = None if ours else Origin.FOREIGN
    return Message(role=_READ_ROLES[role], content=text, timestamp=now, decision_type=_decision_type(message), origin=origin)


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
    return named if _is_id(named) else None


def check_id(name: str, value: object) -> None:
    """Raise `ServiceError` VALIDATION_ERROR unless `value` can be the id of a user or a conversation."""
    if not _is_id(value):
        raise _refused(f"{name} must be a text of 1 to {MAX_ID_LENGTH} characters.")


def _is_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_ID_LENGTH and unstorable(value) is None


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


Status = Literal["completed", "max_iterations_reached", "error"]
Reason = Literal["completed", "max_iterations", "error"]

_ENDS: dict[EndingKind, tuple[Status, Reason]] = {
    EndingKind.CAP: ("max_iterations_reached", "max_iterations"),
    EndingKind.FAILURE: ("error", "error"),
}
"""Every other ending, a question or a refusal included, counts as completed."""


class AgentResponse(Frozen):
    """The result of a turn.

    `final_response` is None with status "error"; `error` and `warning` are fixed sentences. `messages` is the whole
    conversation: append the user's next message and pass it as the history of the next call. `iterations` counts the model's
    responses. `effects` are the receipts of committed changes, `usage` the tokens of all model calls.
    """

    status: Status
    final_response: str | None = None
    messages: list[dict[str, Any]] = Field(default_factory=list)
    iterations: int = Field(ge=0)
    finish_reason: Reason
    error: str | None = None
    warning: str | None = None
    effects: list[str] = Field(default_factory=list)
    usage: TokenUsage | None = None


def refused_response(history: Sequence[Mapping[str, Any]], sentence: str) -> AgentResponse:
    """Return the response to a request that gets no turn: the conversation is unchanged."""
    given = history if isinstance(history, Sequence) else []
    messages = [dict(message) for message in given if isinstance(message, Mapping)]
    return AgentResponse(status="error", finish_reason="error", iterations=0, error=sentence, messages=messages)


def finished_response(history: Sequence[Mapping[str, Any]], finished: FinishedTurn, config: AgentEngineConfig) -> AgentResponse:
    """Return the response for a finished turn, with its messages appended to `history`."""
    turn, decision = finished.turn, finished.decision
    assert turn is not None
    assert turn.ending is not None
    status, reason = _ENDS.get(turn.ending.kind, ("completed", "completed"))
    failed = status == "error"
    return AgentResponse(
        status=status,
        final_response=None if failed else decision.reply,
        messages=[*(dict(message) for message in history), *_own_messages(finished, turn)],
        iterations=turn.adapter_calls,
        finish_reason=reason,
        error=decision.reply if failed else None,
        warning=" ".join(_warnings(turn, config)) or None,
        effects=decision.effects,
        usage=finished.record.usage,
    )


def _own_messages(finished: FinishedTurn, turn: Turn) -> list[dict[str, Any]]:
    """Return the messages that the turn adds: calls, their results, and the reply, which has the decision under `DATA_KEY`."""
    assert turn.request is not None
    asked = max(n for n, message in enumerate(turn.request.messages) if message.role == "user")
    added = turn.request.messages[asked + 1 :]
    # Without a model name, so that extra fields which only one provider needs are left out.
    messages = build_messages(added, "", None)
    given = {call.id for message in added for call in message.function_calls or []}
    for message in messages:
        _make_ids_unique(message, given, turn.decision_id[:8])
    decision = finished.decision
    own_data: dict[str, Any] = {
        "conversation_id": turn.context.conversation_id,
        "decision_id": turn.decision_id,
        "decision_type": decision.decision_type.value,
        "effects": decision.effects,
    }
    keeps = decision.void_answer in STILL_WAITING
    if (pending := turn.context.pending_confirmation if keeps else decision.pending_action) is not None:
        own_data["pending_action"] = pending.to_json()
    messages[-1][DATA_KEY] = own_data
    return messages


def _make_ids_unique(message: dict[str, Any], given: set[str | None], turn: str) -> None:
    """Append `turn` to the call ids that are not among `given`: those count from 1 in every turn of the conversation."""
    for named, key in [(message, "tool_call_id"), *((call, "id") for call in message.get("tool_calls") or [])]:
        if key in named and named[key] not in given:
            named[key] = f"{named[key]}_{turn}"


def _warnings(turn: Turn, config: AgentEngineConfig) -> list[str]:
    assert turn.ending is not None
    warnings = []
    if turn.ending.kind is EndingKind.CAP:
        warnings.append(f"The limit of {config.max_iterations} iterations was reached before the request was finished.")
    if turn.ending.kind is EndingKind.ANSWER and turn.response is not None and turn.response.finish_reason == "max_tokens":
        warnings.append("The answer was cut short at the limit of its length.")
    if any(call.receipt and call.result.unknown for call in turn.calls):
        warnings.append("It is not known whether everything that was asked for was done.")
    return warnings

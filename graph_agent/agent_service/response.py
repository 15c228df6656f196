"""The result of `run_agent`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from graph_agent.agent_service.history import DATA_KEY
from graph_agent.graph.state import EndingKind, Turn
from graph_agent.llm.openai_wire import build_messages
from graph_agent.models.base import Frozen
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import TokenUsage
from graph_agent.turn.finished import FinishedTurn

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
    if decision.pending_action is not None:
        own_data["pending_action"] = decision.pending_action.to_json()
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

"""A finished turn, and the composition of its record, also of a message that does not become a turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from graph_agent.graph.build import CompiledGraph
from graph_agent.graph.state import Turn
from graph_agent.graph.step import Step
from graph_agent.graph.stepping import require_whole_path
from graph_agent.models.authors import TextAuthor
from graph_agent.models.decision import (
    MAX_MESSAGE_LENGTH,
    AgentDecision,
    AnswerState,
    ConfirmationAnswer,
    DecisionContext,
    DecisionType,
    OutcomeCategory,
    ShownQuestion,
    unstorable,
)
from graph_agent.models.record import (
    MAX_INTEGER,
    DecisionRecord,
    EntryKind,
    RecordEntry,
    RecordHeader,
    RecordStatus,
    ToolInvocation,
)
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.authored import by_code, name_authors
from graph_agent.turn.recorder import Recorder, call_digest

_SENT = frozenset({EntryKind.EXECUTE, EntryKind.SETTLE})


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A turn after its end: the record that is stored in the log, and the turn's last state if it was run in this process."""

    record: DecisionRecord
    turn: Turn | None = None

    @property
    def decision(self) -> AgentDecision:
        return self.record.decision

    def answered(self, answer: ConfirmationAnswer | str, *, roles: tuple[str, ...] | None = None) -> DecisionContext:
        """Return the context of the turn that follows an answer to the question of this one, which belongs to no chat.

        `answer` is a yes or no to the question by its id, or the text that the user has typed below it. `roles` are those of
        the user now; by default those with which this decision was made.
        """
        pending = self.decision.pending_action
        assert pending is not None, "the decision asks nothing"
        context, typed = self.record.header.context, isinstance(answer, str)
        waits = isinstance(answer, str) or answer.state is AnswerState.CURRENT
        return DecisionContext(
            user_id=context.user_id,
            message=answer if isinstance(answer, str) else "Yes." if answer.yes else "No.",
            conversation_id=context.conversation_id,
            roles=context.roles if roles is None else roles,
            time_zone=context.time_zone,
            # An answer by its id continues the run of a job; other words are those of a user who is there.
            job=pending.job if waits and not typed else "",
            message_history=context.message_history,
            pending_confirmation=pending if waits else None,
            answers=None if isinstance(answer, str) else answer,
            shown=ShownQuestion(pending_action=pending.id) if typed else None,
        )


def compose_record(recorder: Recorder, graph: CompiledGraph, steps: Sequence[Step], ended_at: datetime) -> DecisionRecord:
    """Return the record of a turn that has reached its decision, composed from the recorder's entries and the steps of a walk.

    A clock that was set back during the turn does not end it before its start. Raises `RecordMismatchError` if the steps are
    not one walk through `graph`.
    """
    require_whole_path(graph, steps)
    turn = steps[-1].turn
    assert turn.decision is not None
    started_at = recorder.header.started_at
    ended_at = max(ended_at, started_at)
    return DecisionRecord(
        header=recorder.header,
        entries=recorder.recorded,
        status=RecordStatus.INTERRUPTED if recorder.interrupted else RecordStatus.COMPLETED,
        states=[step.state for step in steps],
        state_ends_us=[step.ended_us for step in steps],
        iterations=turn.iterations,
        usage=turn.usage,
        decision=turn.decision,
        invocations=[_invocation(recorder, turn, call, ended_at) for call in turn.calls],
        ended_at=ended_at,
        # A turn may have been left open for longer.
        duration_ms=min(round((ended_at - started_at).total_seconds() * 1000), MAX_INTEGER),
    )


def sent_entries(entries: Sequence[RecordEntry], turn: Turn, call: TurnCall) -> list[RecordEntry]:
    """Return the entries in which `call` was sent or settled; `turn` is the last state of the turn."""
    confirmed = turn.confirmed if turn.confirmed is not None and call.sequence <= len(turn.confirmed.each) else None
    key = f"{turn.decision_id}:{call.sequence}" if confirmed is None else confirmed.operation_key(call.sequence)
    request = call_digest(call.call.name, call.arguments, turn.context.user_id, key)
    return [entry for entry in entries if entry.request == request and entry.kind in _SENT]


def _invocation(recorder: Recorder, turn: Turn, call: TurnCall, ended_at: datetime) -> ToolInvocation:
    # The state has no times: when the call was sent, and how long it took, is read from its entries.
    sent = sent_entries(recorder.recorded, turn, call)
    return ToolInvocation(
        sequence=call.sequence,
        tool_name=call.call.name,
        parameters=call.arguments,
        disposition=call.disposition,
        result=call.result.data,
        success=call.result.success,
        error_code=call.result.error_code,
        error_message=call.result.error,
        content=call.result.content,
        shadow=call.shadow,
        gate=call.gate or None,
        duration_ms=sum(entry.ms for entry in sent),
        invoked_at=next((entry.at for entry in sent if entry.at is not None), ended_at),
    )


def refused_record(header: RecordHeader, outcome: OutcomeCategory, reply: str) -> DecisionRecord:
    """Return the record of a message that was answered with the fixed `reply`: it has no entries and no states."""
    return DecisionRecord(
        header=header,
        entries=[],
        status=RecordStatus.COMPLETED,
        states=[],
        iterations=0,
        decision=AgentDecision(
            decision_type=DecisionType.RESPOND_ONLY,
            response_text=reply,
            decision_id=header.decision_id,
            outcome_category=outcome,
            authors=name_authors(TextAuthor.USER, by_code(reply)),
        ),
        ended_at=header.started_at,
        duration_ms=0,
    )


def storable(message: str) -> str:
    """Return `message` in a form that the log can store: truncated, and as a JSON string if it is blank or not valid text."""
    cut = message[:MAX_MESSAGE_LENGTH]
    if cut.strip() and unstorable(cut) is None:
        return cut
    return json.dumps(cut)[:MAX_MESSAGE_LENGTH]

"""The trace of one decision: its row, its tool and model calls, its record, and the policy it was made under."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from pydantic import Field
from sqlalchemy import ColumnElement, Connection, RowMapping, case, select

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import DecisionType, PendingAction
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.models.record import (
    CallDisposition,
    DecisionRecord,
    OperationState,
    RecordEntry,
    RecordHeader,
    RecordStatus,
    ToolInvocation,
)
from graph_agent.record.operations import states_of, undone_by
from graph_agent.record.projection import model_calls
from graph_agent.record.rule_sets import activation_of
from graph_agent.record.settlements import Settlement, settlements_of
from graph_agent.record.tables import (
    call_operations,
    decision_logs,
    record_blobs,
    record_entries,
    tool_invocation_logs,
)
from graph_agent.words.outcomes import Ending, EndingKind, kind_of_ending, words_of_ending, words_of_type
from graph_agent.words.reasons import conditions_that_refused
from graph_agent.words.said import brief_of

C = TypeVar("C", bound=Frozen)

_ASKING = (DecisionType.REQUEST_CONFIRMATION, DecisionType.ASK_CLARIFICATION)
_TOKENS = tuple(TokenUsage.model_fields)


class LoggedDecision(Frozen):
    """A row of the table `decision_logs` without its record. Fields that are known only at the end are None while the status is
    PENDING.
    """

    decision_id: str
    conversation_id: str
    user_id: str
    message: str
    intent_type: str | None
    confidence: float | None
    extracted_params: dict[str, Any] | None
    decision_type: str
    outcome_category: str
    response_text: str | None
    created_at: UtcDatetime
    ended_at: UtcDatetime | None
    duration_ms: int
    status: RecordStatus
    model: str | None
    """The model that was requested."""
    response_model: str | None
    """The model that answered last; None if it did not name itself."""
    constitution: str | None
    usage: TokenUsage | None
    iterations: int | None
    states: list[str] | None
    tools: list[str]
    """The tools that were requested, each once, in the order of the calls."""
    changed: bool
    """True if a call was sent that may change something."""
    refused_calls: int
    """The number of tool calls that code refused. The outcome does not depend on it if other calls succeeded."""
    refused_by: str | None
    """The reason of the conditions that refused the first refused call; None if no condition refused it."""
    question: str | None
    """The question that it answers, or else the one that it asks: decisions with the same are about the same call."""
    title: str
    """The message; for a decision about a question the sentence of its call."""
    type_words: str
    """The decision type in words."""
    ending: str
    """Its outcome in words."""
    ending_kind: EndingKind

    @classmethod
    def of(cls, row: RowMapping, rows: _RowsOfDecision) -> LoggedDecision:
        """Convert a row that has at least `ROW_COLUMNS`, with the rows about it."""
        calls, states = rows.calls, rows.states
        tokens = {name: row[name] or 0 for name in _TOKENS}
        refused = [call for call in calls if call.disposition is CallDisposition.REFUSED]
        refused_by = conditions_that_refused(refused[0].gate, refused[0].error_message) if refused else None
        about = _about(row, rows.record)
        ending = Ending(
            decision_type=row["decision_type"],
            outcome=row["outcome_category"],
            changed=bool(states),
            unknown=OperationState.UNKNOWN in states,
            refused_by=refused_by,
            answers=about.answered,
            asks_others=about.asks_others,
        )
        return cls.model_validate(
            {
                **{name: row[name] for name in cls.model_fields if name not in _COMPUTED},
                "usage": None if row["total_tokens"] is None else tokens,
                "tools": list(dict.fromkeys(call.tool_name for call in calls)),
                "changed": bool(states),
                "refused_calls": len(refused),
                "refused_by": refused_by,
                "title": str(row["message"]) if about.action is None else brief_of(about.action),
                "type_words": words_of_type(row["decision_type"]),
                "ending": words_of_ending(ending),
                "ending_kind": kind_of_ending(ending),
            }
        )


class _RowsOfDecision(NamedTuple):
    """The rows about one decision beside its own."""

    calls: Sequence[Any]
    states: Sequence[OperationState]
    """The states of its calls that may change something."""
    record: str | None
    """The record, of a decision that asks a question."""


class _About(NamedTuple):
    """The question that a decision is about."""

    action: PendingAction | None = None
    answered: bool = False
    asks_others: bool = False


def _about(row: RowMapping, record: str | None) -> _About:
    """Return the question of a decision; none for a header or a record that cannot be read."""
    if row["question"] is None:
        return _About()
    try:
        context = RecordHeader.model_validate_json(row["header_of_question"]).context
        decision = None if record is None else DecisionRecord.model_validate_json(record).decision
    except ValueError:
        return _About()
    asks = None if decision is None else decision.pending_action
    request = None if decision is None else decision.approval
    asked = asks if request is None else request.action
    if asked is not None and asked.id == row["question"]:
        # It may have been asked again.
        return _About(asked, asks_others=request is not None)
    closed = None if context.approval is None else context.approval.request.action
    return _About(closed or context.pending_confirmation, answered=True, asks_others=request is not None)


_COMPUTED = ("usage", "tools", "changed", "refused_calls", "refused_by", "title", "type_words", "ending", "ending_kind")
_HEADER_OF_QUESTION: ColumnElement[str | None] = case(
    (decision_logs.c.question.is_not(None), decision_logs.c.header),
).label("header_of_question")
ROW_COLUMNS = [
    *(decision_logs.c[name] for name in (*LoggedDecision.model_fields, *_TOKENS) if name not in _COMPUTED),
    _HEADER_OF_QUESTION,
]


def logged_decisions(connection: Connection, rows: Sequence[RowMapping]) -> list[LoggedDecision]:
    """Convert rows of `ROW_COLUMNS`, with what their calls say."""
    ids = [row["decision_id"] for row in rows]
    calls, operations = tool_invocation_logs.c, call_operations.c
    columns = calls.decision_id, calls.tool_name, calls.disposition, calls.gate, calls.error_message
    made = select(*columns).where(calls.decision_id.in_(ids)).order_by(calls.decision_id, calls.sequence)
    of_decision = {one: list(group) for one, group in groupby(connection.execute(made), attrgetter("decision_id"))}
    intended = select(operations.decision_id, operations.state).where(operations.decision_id.in_(ids))
    states: defaultdict[str, list[OperationState]] = defaultdict(list)
    for one in connection.execute(intended):
        states[one.decision_id].append(one.state)
    asking = [row["decision_id"] for row in rows if row["question"] is not None and row["decision_type"] in _ASKING]
    kept = select(decision_logs.c.decision_id, decision_logs.c.record).where(decision_logs.c.decision_id.in_(asking))
    records = {one.decision_id: one.record for one in connection.execute(kept)} if asking else {}
    return [
        LoggedDecision.of(row, _RowsOfDecision(of_decision.get(one, ()), states[one], records.get(one)))
        for one, row in zip(ids, rows, strict=True)
    ]


class LoggedModelCall(Frozen):
    """One call of the model, with its answer, of the record."""

    sequence: int
    finish_reason: str
    error: str | None
    response_model: str | None
    response: LLMResponse
    duration_ms: int
    request_digest: str


class ConstitutionInForce(Frozen):
    """The constitution that a decision was made under, and the one that was in force before it.

    `since` is the start of the first decision that references it. A text is None if the log no longer contains it.
    """

    digest: str
    since: UtcDatetime | None = None
    text: str | None = None
    previous_digest: str | None = None
    previous_text: str | None = None


class DecisionTrace(Frozen):
    """Everything that the log contains about one decision.

    `entries` are those of a turn that is still running; afterwards they are part of `record`.
    """

    decision: LoggedDecision
    tool_invocations: list[ToolInvocation]
    llm_calls: list[LoggedModelCall]
    header: RecordHeader | None = None
    record: DecisionRecord | None = None
    entries: list[RecordEntry] = Field(default_factory=list)
    constitution: ConstitutionInForce | None = None
    settlements: list[Settlement] = Field(default_factory=list)
    operations: dict[int, OperationState] = Field(default_factory=dict)
    """The states of the calls that may change something, by their sequence."""
    undone_by: dict[int, str] = Field(default_factory=dict)
    """The decisions that have undone calls, or may have, by the sequence of the call."""
    rules: int | None = None
    """The number of the rules under which it was made; None for one of an engine of your own."""


def read_trace(connection: Connection, decision_id: str) -> DecisionTrace | None:
    """Return the trace of one decision, or None if it does not exist."""
    wanted = select(*ROW_COLUMNS, decision_logs.c.header, decision_logs.c.record).where(
        decision_logs.c.decision_id == decision_id
    )
    row = connection.execute(wanted).mappings().one_or_none()
    if row is None:
        return None
    record = None if row["record"] is None else DecisionRecord.model_validate_json(row["record"])
    entries = _open_entries(connection, decision_id)
    header = None if row["header"] is None else RecordHeader.model_validate_json(row["header"])
    activation = None if header is None else activation_of(connection, header)
    return DecisionTrace(
        decision=logged_decisions(connection, [row])[0],
        tool_invocations=_tool_calls(connection, decision_id),
        llm_calls=_model_calls(entries if record is None else record.entries),
        header=header,
        record=record,
        entries=entries,
        constitution=None if row["constitution"] is None else _constitution(connection, row["constitution"]),
        settlements=settlements_of(connection, decision_id),
        operations=states_of(connection, decision_id),
        undone_by={number: by for number, (by, _) in undone_by(connection, decision_id).items()},
        rules=None if activation is None else activation.number,
    )


def _tool_calls(connection: Connection, decision_id: str) -> list[ToolInvocation]:
    columns = [tool_invocation_logs.c[name] for name in ToolInvocation.model_fields if name in tool_invocation_logs.c]
    wanted = select(*columns).where(tool_invocation_logs.c.decision_id == decision_id).order_by(tool_invocation_logs.c.sequence)
    return [ToolInvocation.model_validate(dict(row)) for row in connection.execute(wanted).mappings()]


def _model_calls(entries: Sequence[RecordEntry]) -> list[LoggedModelCall]:
    calls = model_calls([entry.to_json() for entry in entries])
    return [LoggedModelCall.model_validate({name: call[name] for name in LoggedModelCall.model_fields}) for call in calls]


def _open_entries(connection: Connection, decision_id: str) -> list[RecordEntry]:
    wanted = select(record_entries.c.entry).where(record_entries.c.decision_id == decision_id).order_by(record_entries.c.n)
    return [RecordEntry.model_validate(entry) for entry in connection.execute(wanted).scalars()]


def _constitution(connection: Connection, constitution: str) -> ConstitutionInForce:
    stored = select(record_blobs.c.text, record_blobs.c.first_used_at).where(record_blobs.c.digest == constitution)
    blob = connection.execute(stored).one_or_none()
    if blob is None:
        return ConstitutionInForce(digest=constitution)
    if blob.first_used_at is None:
        # No decision is before a time that is missing, and SQLAlchemy refuses to compare a column with None.
        return ConstitutionInForce(digest=constitution, text=blob.text)
    latest = (
        select(decision_logs.c.constitution, record_blobs.c.text)
        .outerjoin(record_blobs, record_blobs.c.digest == decision_logs.c.constitution)
        .where(decision_logs.c.created_at < blob.first_used_at)
        .order_by(decision_logs.c.created_at.desc())
    )
    before = connection.execute(latest.limit(1)).one_or_none()
    return ConstitutionInForce(
        digest=constitution,
        since=blob.first_used_at,
        text=blob.text,
        previous_digest=None if before is None else before.constitution,
        previous_text=None if before is None else before.text,
    )

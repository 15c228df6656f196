"""The trace of one decision: its row, its tool and model calls, its record, and the policy it was made under."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from pydantic import Field
from sqlalchemy import ColumnElement, Connection, RowMapping, case, select

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import DecisionType
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
from graph_agent.words.reasons import conditions_that_refused
from graph_agent.words.said import brief_of

C = TypeVar("C", bound=Frozen)

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
    title: str
    """The message; for an answer to a question the action that it was about, with what the answer was."""

    @classmethod
    def of(cls, row: RowMapping, calls: Sequence[Any], changed: bool) -> LoggedDecision:
        """Convert a row that has at least `ROW_COLUMNS`, with the rows of its tool calls."""
        tokens = {name: row[name] or 0 for name in _TOKENS}
        refused = [call for call in calls if call.disposition is CallDisposition.REFUSED]
        return cls.model_validate(
            {
                **{name: row[name] for name in cls.model_fields if name not in _COMPUTED},
                "usage": None if row["total_tokens"] is None else tokens,
                "tools": list(dict.fromkeys(call.tool_name for call in calls)),
                "changed": changed,
                "refused_calls": len(refused),
                "refused_by": conditions_that_refused(refused[0].gate, refused[0].error_message) if refused else None,
                "title": _title(row),
            }
        )


def _title(row: RowMapping) -> str:
    """Return the title of a decision: its message also for a header that cannot be read."""
    message, header = str(row["message"]), row["header_of_answer"]
    try:
        pending = None if header is None else RecordHeader.model_validate_json(header).context.pending_confirmation
    except ValueError:
        return message
    if pending is None:
        return message
    answer = "Declined" if row["decision_type"] == DecisionType.CANCEL_PENDING else "Confirmed"
    return f"{answer}: {brief_of(pending)}"


_RAN_CONFIRMED: ColumnElement[bool] = (
    select(call_operations.c.sequence)
    .where(
        call_operations.c.decision_id == decision_logs.c.decision_id,
        # A call that was not confirmed has a key of its decision.
        ~call_operations.c.operation_key.startswith(decision_logs.c.decision_id),
    )
    .exists()
)
"""True for a decision that ran what its user had confirmed, and then went on: its type is that of its end."""
_HEADER_OF_ANSWER: ColumnElement[str | None] = case(
    (decision_logs.c.decision_type.in_([DecisionType.EXECUTE_PENDING, DecisionType.CANCEL_PENDING]), decision_logs.c.header),
    (
        decision_logs.c.decision_type.in_([DecisionType.REQUEST_CONFIRMATION, DecisionType.ASK_CLARIFICATION]) & _RAN_CONFIRMED,
        decision_logs.c.header,
    ),
).label("header_of_answer")
_COMPUTED = ("usage", "tools", "changed", "refused_calls", "refused_by", "title")
ROW_COLUMNS = [
    *(decision_logs.c[name] for name in (*LoggedDecision.model_fields, *_TOKENS) if name not in _COMPUTED),
    _HEADER_OF_ANSWER,
]


def logged_decisions(connection: Connection, rows: Sequence[RowMapping]) -> list[LoggedDecision]:
    """Convert rows of `ROW_COLUMNS`, with what their calls say."""
    ids = [row["decision_id"] for row in rows]
    calls, operations = tool_invocation_logs.c, call_operations.c
    columns = calls.decision_id, calls.tool_name, calls.disposition, calls.gate, calls.error_message
    made = select(*columns).where(calls.decision_id.in_(ids)).order_by(calls.decision_id, calls.sequence)
    of_decision = {one: list(group) for one, group in groupby(connection.execute(made), attrgetter("decision_id"))}
    changed = set(connection.execute(select(operations.decision_id).where(operations.decision_id.in_(ids))).scalars())
    return [LoggedDecision.of(row, of_decision.get(one, ()), one in changed) for one, row in zip(ids, rows, strict=True)]


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

"""One decision as it stands in the log: its row, its tool and model calls, its record, and the policy it was made under."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field
from sqlalchemy import Connection, RowMapping, select

from graph_agent.record.tables import DecisionLog, LLMCallLog, RecordBlob, RecordEntryRow, ToolInvocationLog, table_of
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.models.record import DecisionRecord, RecordEntry, RecordHeader, RecordStatus, ToolInvocation

_decisions = table_of(DecisionLog)
_invocations = table_of(ToolInvocationLog)
_calls = table_of(LLMCallLog)
_entries = table_of(RecordEntryRow)
_blobs = table_of(RecordBlob)

_TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")


class LoggedDecision(Frozen):
    """A row of `DecisionLog` without its record; what is not known before the end is None while it is PENDING."""

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
    constitution: str | None
    usage: TokenUsage | None
    iterations: int | None
    states: list[str] | None

    @classmethod
    def of(cls, row: RowMapping) -> LoggedDecision:
        """From a row that has at least `ROW_COLUMNS`."""
        columns = {name: row[name] for name in cls.model_fields if name != "usage"}
        tokens = {name: row[name] for name in _TOKENS}
        return cls.model_validate({**columns, "usage": None if row["total_tokens"] is None else tokens})


ROW_COLUMNS = [_decisions.c[name] for name in (*LoggedDecision.model_fields, *_TOKENS) if name != "usage"]


class LoggedModelCall(Frozen):
    """A row of `LLMCallLog`."""

    sequence: int
    finish_reason: str
    error: str | None
    response: LLMResponse
    duration_ms: int
    request_digest: str


class PolicyInForce(Frozen):
    """The constitution a decision was made under, and the one that was in force before it.

    `since` is when a decision first named it. The texts are None where the log no longer has them.
    """

    digest: str
    since: UtcDatetime | None = None
    text: str | None = None
    previous_digest: str | None = None
    previous_text: str | None = None


class DecisionTrace(Frozen):
    """Everything the log knows of one decision. `entries` are those of a turn that is open; else they are in the record."""

    decision: LoggedDecision
    tool_invocations: list[ToolInvocation]
    llm_calls: list[LoggedModelCall]
    header: RecordHeader | None = None
    record: DecisionRecord | None = None
    entries: list[RecordEntry] = Field(default_factory=list)
    policy: PolicyInForce | None = None


def read_trace(connection: Connection, decision_id: str) -> DecisionTrace | None:
    """The trace of one decision, or None where there is none."""
    wanted = select(*ROW_COLUMNS, _decisions.c.header, _decisions.c.record).where(_decisions.c.decision_id == decision_id)
    row = connection.execute(wanted).mappings().one_or_none()
    if row is None:
        return None
    return DecisionTrace(
        decision=LoggedDecision.of(row),
        tool_invocations=_tool_invocations(connection, decision_id),
        llm_calls=_model_calls(connection, decision_id),
        header=None if row["header"] is None else RecordHeader.model_validate_json(row["header"]),
        record=None if row["record"] is None else DecisionRecord.model_validate_json(row["record"]),
        entries=_open_entries(connection, decision_id),
        policy=None if row["constitution"] is None else _policy(connection, row["constitution"]),
    )


def _tool_invocations(connection: Connection, decision_id: str) -> list[ToolInvocation]:
    columns = [_invocations.c[name] for name in ToolInvocation.model_fields]
    wanted = select(*columns).where(_invocations.c.decision_id == decision_id).order_by(_invocations.c.sequence)
    return [ToolInvocation.model_validate(dict(row)) for row in connection.execute(wanted).mappings()]


def _model_calls(connection: Connection, decision_id: str) -> list[LoggedModelCall]:
    columns = [_calls.c[name] for name in LoggedModelCall.model_fields]
    wanted = select(*columns).where(_calls.c.decision_id == decision_id).order_by(_calls.c.sequence)
    return [LoggedModelCall.model_validate(dict(row)) for row in connection.execute(wanted).mappings()]


def _open_entries(connection: Connection, decision_id: str) -> list[RecordEntry]:
    wanted = select(_entries.c.entry).where(_entries.c.decision_id == decision_id).order_by(_entries.c.n)
    return [RecordEntry.model_validate(entry) for entry in connection.execute(wanted).scalars()]


def _policy(connection: Connection, constitution: str) -> PolicyInForce:
    stored = select(_blobs.c.text, _blobs.c.first_used_at).where(_blobs.c.digest == constitution)
    blob = connection.execute(stored).one_or_none()
    if blob is None:
        return PolicyInForce(digest=constitution)
    before = None if blob.first_used_at is None else _constitution_before(connection, blob.first_used_at)
    return PolicyInForce(
        digest=constitution,
        since=blob.first_used_at,
        text=blob.text,
        previous_digest=before,
        previous_text=None if before is None else _text(connection, before),
    )


def _constitution_before(connection: Connection, at: datetime) -> str | None:
    latest = select(_decisions.c.constitution).where(_decisions.c.created_at < at).order_by(_decisions.c.created_at.desc())
    return connection.execute(latest.limit(1)).scalar()


def _text(connection: Connection, name: str) -> str | None:
    return connection.execute(select(_blobs.c.text).where(_blobs.c.digest == name)).scalar()


def _utc_text(time: datetime) -> str:
    """As everywhere else in the API: the letter, not the offset."""
    return time.isoformat().replace("+00:00", "Z")

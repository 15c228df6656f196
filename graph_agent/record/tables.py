"""The log database: one row a decision, one a tool call, one a model call. All of it is projected from the record."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Float, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from graph_agent.db import JsonText, UtcDateTime, enum_by_value, new_metadata
from graph_agent.models.record import CallDisposition, RecordStatus

_OPEN = text("status = 'PENDING'")


class Base(DeclarativeBase):
    metadata = new_metadata()


def table_of(model: type[Base]) -> Table:
    """The table behind a model, for statements in Core."""
    table = model.__table__
    assert isinstance(table, Table)
    return table


class DecisionLog(Base):
    """A decision: opened PENDING before the first model call, made terminal exactly once.

    `header` is canonical JSON and stands from the start; `record`, the whole of it, from the end.
    """

    __tablename__ = "decision_logs"

    decision_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    conversation_id: Mapped[str] = mapped_column(String(255))
    user_id: Mapped[str] = mapped_column(String(255))
    message: Mapped[str] = mapped_column(Text)
    intent_type: Mapped[str | None] = mapped_column(String(32))
    confidence: Mapped[float | None] = mapped_column(Float)
    extracted_params: Mapped[dict[str, Any] | None] = mapped_column(JsonText)
    decision_type: Mapped[str] = mapped_column(String(32))
    outcome_category: Mapped[str] = mapped_column(String(64))
    category: Mapped[str] = mapped_column(String(16))
    response_text: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    duration_ms: Mapped[int] = mapped_column(Integer)
    status: Mapped[RecordStatus] = mapped_column(enum_by_value(RecordStatus, "status"))
    model: Mapped[str | None] = mapped_column(String(255))
    constitution: Mapped[str | None] = mapped_column(String(64))
    prompt_tokens: Mapped[int | None] = mapped_column(Integer)
    completion_tokens: Mapped[int | None] = mapped_column(Integer)
    total_tokens: Mapped[int | None] = mapped_column(Integer)
    iterations: Mapped[int | None] = mapped_column(Integer)
    states: Mapped[list[str] | None] = mapped_column(JsonText)
    header: Mapped[str | None] = mapped_column(Text)
    record: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (
        Index("ix_decision_logs_created_at", "created_at"),
        Index("ix_decision_logs_user", "user_id", "created_at"),
        Index("ix_decision_logs_conversation", "conversation_id", "created_at"),
        # What stands behind the time is there to be filtered by without looking at the rows.
        Index("ix_decision_logs_outcome", "outcome_category", "created_at", "decision_type", "intent_type"),
        Index("ix_decision_logs_category", "category", "created_at", "decision_type", "intent_type"),
        Index("ix_decision_logs_type", "decision_type", "created_at", "outcome_category", "intent_type"),
        Index("ix_decision_logs_intent", "intent_type", "created_at", "outcome_category", "decision_type"),
        Index("ix_decision_logs_model", "model", "created_at"),
        Index("ix_decision_logs_open", "created_at", sqlite_where=_OPEN, postgresql_where=_OPEN),
    )


class ToolInvocationLog(Base):
    """A call attempted, refused, repeated, held or skipped."""

    __tablename__ = "tool_invocation_logs"

    decision_id: Mapped[str] = mapped_column(ForeignKey("decision_logs.decision_id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(Integer, primary_key=True)
    tool_name: Mapped[str] = mapped_column(Text)
    parameters: Mapped[dict[str, Any] | None] = mapped_column(JsonText)
    disposition: Mapped[CallDisposition] = mapped_column(enum_by_value(CallDisposition, "disposition"))
    result: Mapped[Any | None] = mapped_column(JsonText)
    success: Mapped[bool]
    error_code: Mapped[str | None] = mapped_column(String(32))
    error_message: Mapped[str | None] = mapped_column(Text)
    duration_ms: Mapped[int] = mapped_column(Integer)
    invoked_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (
        # All that figures over tools need, so that they never look at a row.
        Index(
            "ix_tool_invocation_logs_sent",
            *("invoked_at", "tool_name", "error_code", "success", "disposition", "duration_ms"),
        ),
    )


class LLMCallLog(Base):
    """A model's answer, committed before anything acts on it; the primary key lets one process win."""

    __tablename__ = "llm_call_logs"

    decision_id: Mapped[str] = mapped_column(ForeignKey("decision_logs.decision_id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(Integer, primary_key=True)
    response: Mapped[dict[str, Any]] = mapped_column(JsonText)
    finish_reason: Mapped[str] = mapped_column(String(16))
    error: Mapped[str | None] = mapped_column(String(32))
    prompt_tokens: Mapped[int | None] = mapped_column(Integer)
    completion_tokens: Mapped[int | None] = mapped_column(Integer)
    total_tokens: Mapped[int | None] = mapped_column(Integer)
    duration_ms: Mapped[int] = mapped_column(Integer)
    request_digest: Mapped[str] = mapped_column(String(64))


class RecordEntryRow(Base):
    """An entry of a turn that is not closed yet. When it is, its entries are in the record and leave this table."""

    __tablename__ = "record_entries"

    decision_id: Mapped[str] = mapped_column(ForeignKey("decision_logs.decision_id"), primary_key=True)
    n: Mapped[int] = mapped_column(Integer, primary_key=True)
    entry: Mapped[dict[str, Any]] = mapped_column(JsonText)


class RecordBlob(Base):
    """A text many records name: a constitution, a prompt, tool schemas, settings.

    The times say since and until when decisions have named it; `last_used_at` may lag by `blobs.TOUCH_EVERY`.
    """

    __tablename__ = "record_blobs"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    text: Mapped[str] = mapped_column(Text)
    first_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class BaselineRow(Base):
    """How the agent behaved in a span of time, kept for comparison; pruning leaves it alone."""

    __tablename__ = "baselines"

    baseline_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(255))
    description: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    since: Mapped[datetime | None] = mapped_column(UtcDateTime)
    until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    decisions: Mapped[int] = mapped_column(Integer)
    profiles: Mapped[list[dict[str, Any]]] = mapped_column(JsonText)

    __table_args__ = (UniqueConstraint("name"),)


class ReportRow(Base):
    """A report of a validation or of a comparison with a baseline; pruning leaves it alone."""

    __tablename__ = "reports"

    report_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    passed: Mapped[bool]
    report: Mapped[dict[str, Any]] = mapped_column(JsonText)

    __table_args__ = (Index("ix_reports_kind", "kind", "created_at"),)

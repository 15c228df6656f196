"""The tables of the log. The record of a decision is the source; every other column is projected from it for queries."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    Boolean,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.sql.schema import Constraint

from graph_agent.db import JsonText, UtcDateTime, enum_by_value, new_metadata
from graph_agent.models.record import CallDisposition, CallState, RecordStatus

_OPEN = text("status = 'PENDING'")
REFUSED = text("tool_invocation_logs.disposition = 'refused'")
"""The condition that a call was refused. A literal, because SQLite uses a partial index for no bound value."""
_REFUSED = text("disposition = 'refused'")
_COUNTED = text("amounts IS NOT NULL")
_BY_ID = "RANGE (decision_id)"
"""The partitions of the large tables on PostgreSQL; see `partitions`."""


def _of_decision() -> Constraint:
    # Not on PostgreSQL, where a partition that other tables reference could not be dropped.
    return ForeignKeyConstraint(["decision_id"], ["decision_logs.decision_id"]).ddl_if(dialect="sqlite")


# Core tables, not ORM classes: nothing here loads objects, and importing sqlalchemy.orm would slow down every command.
metadata = new_metadata()

decision_logs = Table(
    "decision_logs",
    metadata,
    Column("decision_id", String(64), primary_key=True),
    Column("conversation_id", String(255), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("message", Text, nullable=False),
    Column("intent_type", String(32)),
    Column("confidence", Float),
    Column("extracted_params", JsonText),
    Column("decision_type", String(32), nullable=False),
    Column("outcome_category", String(64), nullable=False),
    # The part of the outcome before the colon.
    Column("category", String(16), nullable=False),
    Column("response_text", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("duration_ms", Integer, nullable=False),
    # PENDING before the first model call; closed exactly once.
    Column("status", enum_by_value(RecordStatus, "status"), nullable=False),
    # The model that was requested, and the one that answered last.
    Column("model", String(255)),
    Column("response_model", String(255)),
    Column("constitution", String(64)),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("total_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("iterations", Integer),
    Column("states", JsonText),
    # Canonical JSON: the header is written with the opening row, the complete record when the decision is closed.
    Column("header", Text),
    # The seal of the opening row. A row without a valid one is never closed: it was not opened by a holder of the key.
    Column("opening_seal", String(64)),
    Column("record", Text),
    # The leaf of a closed decision commits to the record with this salt, in base64. It is deleted with the record.
    Column("salt", String(44)),
    Index("ix_decision_logs_created_at", "created_at"),
    Index("ix_decision_logs_user", "user_id", "created_at"),
    Index("ix_decision_logs_conversation", "conversation_id", "created_at"),
    # The columns after the time let the database filter by them without reading the rows.
    Index("ix_decision_logs_outcome", "outcome_category", "created_at", "decision_type", "intent_type"),
    Index("ix_decision_logs_category", "category", "created_at", "decision_type", "intent_type"),
    Index("ix_decision_logs_type", "decision_type", "created_at", "outcome_category", "intent_type"),
    Index("ix_decision_logs_intent", "intent_type", "created_at", "outcome_category", "decision_type"),
    Index("ix_decision_logs_model", "model", "created_at"),
    Index("ix_decision_logs_open", "created_at", sqlite_where=_OPEN, postgresql_where=_OPEN),
    postgresql_partition_by=_BY_ID,
)

CLOSED = decision_logs.c.record.is_not(None)
"""The condition that a decision is closed, and so never changes again."""

tool_invocation_logs = Table(
    "tool_invocation_logs",
    metadata,
    Column("decision_id", String(64), primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("tool_name", Text, nullable=False),
    Column("parameters", JsonText),
    Column("disposition", enum_by_value(CallDisposition, "disposition"), nullable=False),
    Column("result", JsonText),
    Column("success", Boolean, nullable=False),
    Column("error_code", String(32)),
    Column("error_message", Text),
    Column("duration_ms", Integer, nullable=False),
    Column("invoked_at", UtcDateTime, nullable=False),
    # A covering index: the metrics of tools never read a row.
    Index("ix_tool_invocation_logs_sent", "invoked_at", "tool_name", "error_code", "success", "disposition", "duration_ms"),
    # Refusals are rare: with it they are found without reading the other calls.
    Index("ix_tool_invocation_logs_refused", "decision_id", sqlite_where=_REFUSED, postgresql_where=_REFUSED),
    _of_decision(),
    postgresql_partition_by=_BY_ID,
)

llm_call_logs = Table(
    "llm_call_logs",
    metadata,
    # A response is committed before anything acts on it; of two processes, the primary key lets one win.
    Column("decision_id", String(64), primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("response", JsonText, nullable=False),
    Column("finish_reason", String(16), nullable=False),
    Column("error", String(32)),
    Column("response_model", String(255)),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("total_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("duration_ms", Integer, nullable=False),
    Column("request_digest", String(64), nullable=False),
    _of_decision(),
    postgresql_partition_by=_BY_ID,
)

PARTITIONED = (decision_logs, tool_invocation_logs, llm_call_logs)
"""Nearly all of the size of a log."""

for _table in PARTITIONED:
    # Without a partition a table takes no rows. `partitions` creates more of them.
    _default = DDL(f"CREATE TABLE {_table.name}_default PARTITION OF {_table.name} DEFAULT")  # type: ignore[no-untyped-call]  # SQLAlchemy's
    event.listen(_table, "after_create", _default.execute_if(dialect="postgresql"))

# The entries of open decisions. Closing a decision moves its entries into the record and deletes them here.
record_entries = Table(
    "record_entries",
    metadata,
    Column("decision_id", String(64), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("entry", JsonText, nullable=False),
    _of_decision(),
)

# One row for each call that may change something, committed before it is sent.
# Of two attempts, the primary key lets one send it.
call_operations = Table(
    "call_operations",
    metadata,
    Column("decision_id", String(64), primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("operation_key", String(255), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("tool_name", Text, nullable=False),
    # The attempt of the turn that may send it.
    Column("attempt", Integer, nullable=False),
    Column("state", enum_by_value(CallState, "state"), nullable=False),
    # What a counted call uses of the budgets, by the name of the argument.
    Column("amounts", JsonText),
    Column("intended_at", UtcDateTime, nullable=False),
    Index("ix_call_operations_intended_at", "intended_at"),
    Index("ix_call_operations_uses", "user_id", "intended_at", sqlite_where=_COUNTED, postgresql_where=_COUNTED),
)

# Texts that many records name by digest: constitutions, prompts, tool schemas, settings.
record_blobs = Table(
    "record_blobs",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("text", Text, nullable=False),
    Column("first_used_at", UtcDateTime),
    # May lag behind the newest decision by `blobs.TOUCH_EVERY`.
    Column("last_used_at", UtcDateTime),
)

# The counts of the metrics of a full hour, which the sweeper writes. An hour without a row is counted from its decisions.
metrics_hours = Table(
    "metrics_hours",
    metadata,
    Column("hour", UtcDateTime, primary_key=True),
    Column("counts", JsonText, nullable=False),
)

# Pruning leaves baselines and reports alone.
baselines_table = Table(
    "baselines",
    metadata,
    Column("baseline_id", String(64), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("description", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("since", UtcDateTime),
    Column("until", UtcDateTime),
    Column("decisions", Integer, nullable=False),
    Column("profiles", JsonText, nullable=False),
    # The leaf of the row commits to the other columns with this salt.
    Column("salt", String(44)),
    UniqueConstraint("name"),
)

reports_table = Table(
    "reports",
    metadata,
    Column("report_id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("passed", Boolean, nullable=False),
    Column("report", JsonText, nullable=False),
    # The leaf of the row commits to the other columns with this salt.
    Column("salt", String(44)),
    Index("ix_reports_kind", "kind", "created_at"),
)

# The names of the data model, for queries from outside the package.
DecisionLog = decision_logs
ToolInvocationLog = tool_invocation_logs
LLMCallLog = llm_call_logs

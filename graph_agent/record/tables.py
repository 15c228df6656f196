"""The tables of the log. The record of a decision is the source; every other column is projected from it for queries."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from graph_agent.db import JsonText, UtcDateTime, enum_by_value, new_metadata
from graph_agent.models.llm import TokenUsage
from graph_agent.models.mandate import MandateState
from graph_agent.models.record import CallDisposition, OperationState, RecordStatus
from graph_agent.models.stop import StopScope
from graph_agent.record.search import SQLITE_INDEX, Words

_OPEN = sa.text("status = 'PENDING'")
REFUSED = sa.text("tool_invocation_logs.disposition = 'refused'")
"""The condition that a call was refused. A literal, because SQLite uses a partial index for no bound value."""
_REFUSED = sa.text("disposition = 'refused'")
_COUNTED = sa.text("amounts IS NOT NULL")
_UNDOES = sa.text("undoes IS NOT NULL AND state <> 'void'")
_ABOUT = sa.text("question IS NOT NULL")
_OF_JOB = sa.text("job IS NOT NULL")
_NOT_ENDED = sa.text("ended_at IS NULL")
_BY_OPERATOR = sa.text("kind <> 'followed'")
STOP_LOCK = "hashtext('graph_agent stops'), hashtext(current_schema())"
"""The advisory lock of stops on PostgreSQL. A schema may have its own log."""
STOP_TRIGGER = (
    "CREATE FUNCTION rule_stops_alone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "PERFORM pg_advisory_xact_lock(hashtext('graph_agent stops'), hashtext(TG_TABLE_SCHEMA)); RETURN NULL; END $$",
    "CREATE TRIGGER rule_stops_alone BEFORE INSERT ON rule_stops FOR EACH STATEMENT EXECUTE FUNCTION rule_stops_alone()",
)
"""A new stop waits for the calls that are being intended, and keeps others from it, also if it is written with psql."""
_BY_ID = "RANGE (decision_id)"
"""The partitions of the large tables on PostgreSQL; see `partitions`."""


def _of_decision() -> sa.Constraint:
    # Not on PostgreSQL, where a partition that other tables reference could not be dropped.
    return sa.ForeignKeyConstraint(["decision_id"], ["decision_logs.decision_id"]).ddl_if(dialect="sqlite")


# Core tables, not ORM classes: nothing here loads objects, and importing sqlalchemy.orm would slow down every command.
metadata = new_metadata()

decision_logs = sa.Table(
    "decision_logs",
    metadata,
    sa.Column("decision_id", sa.String(64), primary_key=True),
    sa.Column("conversation_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("intent_type", sa.String(32)),
    sa.Column("confidence", sa.Float),
    sa.Column("extracted_params", JsonText),
    sa.Column("decision_type", sa.String(32), nullable=False),
    sa.Column("outcome_category", sa.String(64), nullable=False),
    # The part of the outcome before the colon.
    sa.Column("category", sa.String(16), nullable=False),
    sa.Column("response_text", sa.Text),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("duration_ms", sa.Integer, nullable=False),
    # PENDING before the first model call; closed exactly once.
    sa.Column("status", enum_by_value(RecordStatus, "status"), nullable=False),
    # The model that was requested, and the one that answered last.
    sa.Column("model", sa.String(255)),
    sa.Column("response_model", sa.String(255)),
    sa.Column("constitution", sa.String(64)),
    *(sa.Column(name, sa.Integer) for name in TokenUsage.model_fields),
    sa.Column("iterations", sa.Integer),
    sa.Column("states", JsonText),
    # Canonical JSON: the header is written with the opening row, the complete record when the decision is closed.
    sa.Column("header", sa.Text),
    # The seal of the opening row. A row without a valid one is never closed: it was not opened by a holder of the key.
    sa.Column("opening_seal", sa.String(64)),
    sa.Column("record", sa.Text),
    # The leaf of a closed decision commits to the record with this salt, in base64. It is deleted with the record.
    sa.Column("salt", sa.String(44)),
    # The words of a closed decision, by which it is found.
    sa.Column("words", Words),
    # The question that a closed decision answers, or else the one that it asks.
    sa.Column("question", sa.String(255)),
    sa.Index("ix_decision_logs_question", "question", sqlite_where=_ABOUT, postgresql_where=_ABOUT),
    sa.Index("ix_decision_logs_words", "words", postgresql_using="gin").ddl_if(dialect="postgresql"),
    sa.Index("ix_decision_logs_created_at", "created_at"),
    sa.Index("ix_decision_logs_user", "user_id", "created_at"),
    sa.Index("ix_decision_logs_conversation", "conversation_id", "created_at"),
    # The columns after the time let the database filter by them without reading the rows.
    sa.Index("ix_decision_logs_outcome", "outcome_category", "created_at", "decision_type", "intent_type"),
    sa.Index("ix_decision_logs_category", "category", "created_at", "decision_type", "intent_type"),
    sa.Index("ix_decision_logs_type", "decision_type", "created_at", "outcome_category", "intent_type"),
    sa.Index("ix_decision_logs_intent", "intent_type", "created_at", "outcome_category", "decision_type"),
    sa.Index("ix_decision_logs_model", "model", "created_at"),
    sa.Index("ix_decision_logs_open", "created_at", sqlite_where=_OPEN, postgresql_where=_OPEN),
    postgresql_partition_by=_BY_ID,
)

for _statement in SQLITE_INDEX:
    _index = sa.DDL(_statement)  # type: ignore[no-untyped-call]  # SQLAlchemy's
    sa.event.listen(decision_logs, "after_create", _index.execute_if(dialect="sqlite"))

CLOSED = decision_logs.c.record.is_not(None)
"""The condition that a decision is closed, and so never changes again."""

tool_invocation_logs = sa.Table(
    "tool_invocation_logs",
    metadata,
    sa.Column("decision_id", sa.String(64), primary_key=True),
    sa.Column("sequence", sa.Integer, primary_key=True),
    sa.Column("tool_name", sa.Text, nullable=False),
    sa.Column("parameters", JsonText),
    sa.Column("disposition", enum_by_value(CallDisposition, "disposition"), nullable=False),
    sa.Column("result", JsonText),
    sa.Column("success", sa.Boolean, nullable=False),
    sa.Column("error_code", sa.String(32)),
    sa.Column("error_message", sa.Text),
    sa.Column("duration_ms", sa.Integer, nullable=False),
    sa.Column("invoked_at", UtcDateTime, nullable=False),
    # The rules in the shadow that would have changed the decision; NULL for nearly all calls.
    sa.Column("shadow", JsonText),
    # The gate that stopped the call; NULL for one that was sent.
    sa.Column("gate", sa.Text),
    # A covering index: the metrics of tools never read a row.
    sa.Index(
        "ix_tool_invocation_logs_sent",
        *("invoked_at", "tool_name", "error_code", "success", "disposition", "duration_ms", "shadow", "gate"),
    ),
    # Refusals are rare: with it they are found without reading the other calls.
    sa.Index("ix_tool_invocation_logs_refused", "decision_id", sqlite_where=_REFUSED, postgresql_where=_REFUSED),
    _of_decision(),
    postgresql_partition_by=_BY_ID,
)

PARTITIONED = (decision_logs, tool_invocation_logs)
"""Nearly all of the size of a log."""

for _table in PARTITIONED:
    # Without a partition a table takes no rows. `partitions` creates more of them.
    _default = sa.DDL(f"CREATE TABLE {_table.name}_default PARTITION OF {_table.name} DEFAULT")  # type: ignore[no-untyped-call]  # SQLAlchemy's
    sa.event.listen(_table, "after_create", _default.execute_if(dialect="postgresql"))

# The entries of open decisions. Closing a decision moves its entries into the record and deletes them here.
record_entries = sa.Table(
    "record_entries",
    metadata,
    sa.Column("decision_id", sa.String(64), primary_key=True),
    sa.Column("n", sa.Integer, primary_key=True),
    sa.Column("entry", JsonText, nullable=False),
    _of_decision(),
)

# One row for each call that may change something, committed before it is sent.
# Of two attempts, the primary key lets one send it.
call_operations = sa.Table(
    "call_operations",
    metadata,
    sa.Column("decision_id", sa.String(64), primary_key=True),
    sa.Column("sequence", sa.Integer, primary_key=True),
    sa.Column("operation_key", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("tool_name", sa.Text, nullable=False),
    # The attempt of the turn that may send it.
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("state", enum_by_value(OperationState, "state"), nullable=False),
    # What a counted call uses of the budgets, by the name of the argument.
    sa.Column("amounts", JsonText),
    # The digest of a call that has its key as an argument: only exactly this call is sent again after the decision.
    sa.Column("request", sa.String(64)),
    # The operation that it undoes, as DECISION:NUMBER.
    sa.Column("undoes", sa.String(128)),
    sa.Column("intended_at", UtcDateTime, nullable=False),
    # The MAC of the other columns but for the state, which follows from the record and its settlements.
    sa.Column("mac", sa.String(64), nullable=False),
    sa.Index("ix_call_operations_intended_at", "intended_at"),
    # An operation is undone once. An undo that certainly had no effect frees it.
    sa.Index("uq_call_operations_undoes", "undoes", unique=True, sqlite_where=_UNDOES, postgresql_where=_UNDOES),
    sa.Index("ix_call_operations_uses", "user_id", "intended_at", sqlite_where=_COUNTED, postgresql_where=_COUNTED),
)

# Texts that many records name by digest: constitutions, prompts, tool schemas, settings.
record_blobs = sa.Table(
    "record_blobs",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("first_used_at", UtcDateTime),
    # May lag behind the newest decision by `blobs.TOUCH_EVERY`.
    sa.Column("last_used_at", UtcDateTime),
)

# The counts of the metrics of a full hour, which the sweeper writes. An hour without a row is counted from its decisions.
metrics_hours = sa.Table(
    "metrics_hours",
    metadata,
    sa.Column("hour", UtcDateTime, primary_key=True),
    sa.Column("counts", JsonText, nullable=False),
)

# Pruning leaves reports alone.
reports_table = sa.Table(
    "reports",
    metadata,
    sa.Column("report_id", sa.String(64), primary_key=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("passed", sa.Boolean, nullable=False),
    sa.Column("report", JsonText, nullable=False),
    # The leaf of the row commits to the other columns with this salt.
    sa.Column("salt", sa.String(44)),
    sa.Index("ix_reports_kind", "kind", "created_at"),
)


class _Now(sa.FunctionElement[datetime]):
    """The time of an INSERT, as `UtcDateTime` stores it."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(_Now, "postgresql")
def _now_of_postgresql(*_: Any, **__: Any) -> str:
    return "now()"


@compiles(_Now, "sqlite")
def _now_of_sqlite(*_: Any, **__: Any) -> str:
    return "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now')"


# What operators have stopped. A row with a scope and a reason is enough, so that psql alone can stop everything.
rule_stops = sa.Table(
    "rule_stops",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("scope", enum_by_value(StopScope, "scope"), nullable=False),
    sa.Column("name", sa.String(255), nullable=False, server_default=""),
    sa.Column("changes_only", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("say", sa.Text, nullable=False, server_default=""),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("made_by", sa.String(255), nullable=False, server_default=""),
    sa.Column("at", UtcDateTime, nullable=False, server_default=_Now()),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("ended_by", sa.String(255)),
    sa.Column("end_reason", sa.Text),
    # The MAC of an end, without which a stop goes on. A stop itself needs none.
    sa.Column("mac", sa.String(64)),
    # True after the log has stated the stop.
    sa.Column("stated", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("ix_rule_stops_open", "number", sqlite_where=_NOT_ENDED, postgresql_where=_NOT_ENDED),
    # The number of a stop that was deleted by hand is not given again.
    sqlite_autoincrement=True,
)
for _trigger in STOP_TRIGGER:
    _ddl = sa.DDL(_trigger)  # type: ignore[no-untyped-call]  # SQLAlchemy's
    sa.event.listen(rule_stops, "after_create", _ddl.execute_if(dialect="postgresql"))

# The plans that people have agreed to. A row exists from the commit that has the yes in the record of its decision.
mandates = sa.Table(
    "mandates",
    metadata,
    # The id of the question that was answered.
    sa.Column("id", sa.String(255), primary_key=True),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("conversation_id", sa.String(255), nullable=False),
    sa.Column("decision_id", sa.String(64), nullable=False),
    sa.Column("plan", JsonText, nullable=False),
    # The digests of the rules and of the definitions of its tools.
    sa.Column("asked_under", JsonText, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("until", UtcDateTime, nullable=False),
    # The MAC of the columns before. Nothing but a revocation changes the others.
    sa.Column("mac", sa.String(64), nullable=False),
    sa.Column("state", enum_by_value(MandateState, "state"), nullable=False),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("ended_by", sa.String(255)),
    # The job of a standing plan, as its plan has it.
    sa.Column("job", sa.String(64)),
    sa.CheckConstraint("(state = 'open') = (ended_at IS NULL)", name="ended_iff_not_open"),
    sa.Index("ix_mandates_user_id", "user_id", "conversation_id"),
    sa.Index("ix_mandates_job", "user_id", "job", sqlite_where=_OF_JOB, postgresql_where=_OF_JOB),
    sa.Index("ix_mandates_created_at", "created_at"),
)

# One row for each call that was committed under a line. Whether it counts follows from the state of its operation.
mandate_draws = sa.Table(
    "mandate_draws",
    metadata,
    sa.Column("operation_key", sa.String(255), primary_key=True),
    sa.Column("mandate_id", sa.String(255), nullable=False),
    sa.Column("line", sa.Integer, nullable=False),
    sa.Column("decision_id", sa.String(64), nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    # What it takes of the sums of the line, by argument, as decimal text.
    sa.Column("amounts", JsonText, nullable=False),
    # The run of a standing plan: the conversation of the decision. NULL for a plan of one conversation.
    sa.Column("run", sa.String(255)),
    sa.Index("ix_mandate_draws_mandate_id", "mandate_id", "line"),
)

# The rule sets that were in force. One is as large as its files, and never removed: the activations name it.
rule_sets = sa.Table(
    "rule_sets",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    # The text of each part, by its name.
    sa.Column("parts", JsonText, nullable=False),
)

# Since when a rule set was in force, numbered from 1 without gaps.
rule_activations = sa.Table(
    "rule_activations",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False, server_default="followed"),
    sa.Column("made_by", sa.String(255), nullable=False, server_default=""),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    # Turns under rules that were last in force before this number intend nothing more. NULL while rules are followed.
    sa.Column("floor", sa.Integer),
    # The MAC of what an operator has activated or released. Without it nothing is decided.
    sa.Column("mac", sa.String(64)),
    sa.Index("ix_rule_activations_by_operator", "number", sqlite_where=_BY_OPERATOR, postgresql_where=_BY_OPERATOR),
)

# The names of the data model, for queries from outside the package.
DecisionLog = decision_logs
ToolInvocationLog = tool_invocation_logs

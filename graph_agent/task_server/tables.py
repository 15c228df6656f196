"""The tables of the task server: tasks, and the ledger of operations on them."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, String, Table, Text, UniqueConstraint

from graph_agent.db.types import UtcDateTime, UuidText, enum_by_value, new_metadata
from graph_agent.task_server.models import MAX_DESCRIPTION_LENGTH, TaskStatus


class OperationState(StrEnum):
    """DONE: the effect was committed with the stored result. VOID: it did not take place and never will."""

    DONE = "DONE"
    VOID = "VOID"


metadata = new_metadata()

tasks = Table(
    "tasks",
    metadata,
    # Internal: it orders tasks with the same creation time. Clients use the UUID, which is never reused.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("id", UuidText, nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("description", String(MAX_DESCRIPTION_LENGTH), nullable=False),
    Column("status", enum_by_value(TaskStatus, "status"), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("completed_at", UtcDateTime),
    UniqueConstraint("id"),
    CheckConstraint(f"length(description) BETWEEN 1 AND {MAX_DESCRIPTION_LENGTH}", name="description_length"),
    CheckConstraint("(status = 'completed') = (completed_at IS NOT NULL)", name="completed_at_iff_completed"),
    Index("ix_tasks_user_id_created_at", "user_id", "created_at"),
)

operations = Table(
    "operations",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("user_id", String(255), nullable=False),
    Column("tool_name", String(64), nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("state", enum_by_value(OperationState, "state"), nullable=False),
    # The exact text of the answer, so that a repeated call returns the same bytes.
    Column("result", Text),
    Column("created_at", UtcDateTime, nullable=False),
    CheckConstraint("(state = 'DONE') = (result IS NOT NULL)", name="result_iff_done"),
)

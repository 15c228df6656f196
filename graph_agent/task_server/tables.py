"""The tables of the task server: tasks, and the ledger of operations on them."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, String, Table, UniqueConstraint

from graph_agent.db.types import UtcDateTime, UuidText, enum_by_value, new_metadata
from graph_agent.ledger.operations import operations_table
from graph_agent.task_server.models import MAX_DESCRIPTION_LENGTH, TaskStatus

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

operations = operations_table(metadata)

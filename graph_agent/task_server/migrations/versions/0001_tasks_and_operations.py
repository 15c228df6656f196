"""Tasks and the operation ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db.types import UtcDateTime, UuidText

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "tasks",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True),
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("description", sa.String(1000), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("completed_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("number", name="pk_tasks"),
        sa.UniqueConstraint("id", name="uq_tasks_id"),
        sa.CheckConstraint("length(description) BETWEEN 1 AND 1000", name="ck_tasks_description_length"),
        sa.CheckConstraint("status IN ('pending', 'completed')", name="ck_tasks_status"),
        sa.CheckConstraint("(status = 'completed') = (completed_at IS NOT NULL)", name="ck_tasks_completed_at_iff_completed"),
    )
    op.create_index("ix_tasks_user_id_created_at", "tasks", ["user_id", "created_at"])
    op.create_table(
        "operations",
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("tool_name", sa.String(64), nullable=False),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("result", sa.Text()),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_operations"),
        sa.CheckConstraint("state IN ('DONE', 'VOID')", name="ck_operations_state"),
        sa.CheckConstraint("(state = 'DONE') = (result IS NOT NULL)", name="ck_operations_result_iff_done"),
    )


def downgrade() -> None:
    op.drop_table("operations")
    op.drop_index("ix_tasks_user_id_created_at", "tasks")
    op.drop_table("tasks")

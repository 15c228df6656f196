"""The operations of decisions: calls that may change something, each with one row before it is sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db import JsonText, UtcDateTime, enum_by_value
from graph_agent.models.record import CallState

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "call_operations",
        sa.Column("decision_id", sa.String(64), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("operation_key", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("tool_name", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", enum_by_value(CallState, "state"), nullable=False),
        sa.Column("amounts", JsonText()),
        sa.Column("intended_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("decision_id", "sequence", name="pk_call_operations"),
    )
    op.create_index("ix_call_operations_intended_at", "call_operations", ["intended_at"])

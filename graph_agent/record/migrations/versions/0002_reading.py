"""Tables and indexes for queries: more indexes, the time range of shared texts, baselines, reports."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from graph_agent.db import JsonText, UtcDateTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("record_blobs", sa.Column("first_used_at", UtcDateTime))
    op.add_column("record_blobs", sa.Column("last_used_at", UtcDateTime))
    blobs = sa.table("record_blobs", sa.column("first_used_at", UtcDateTime), sa.column("last_used_at", UtcDateTime))
    # The time range of texts that are stored already is unknown, so they count as used now.
    now = datetime.now(UTC)
    op.execute(blobs.update().values(first_used_at=now, last_used_at=now))
    for name in ("outcome", "category", "type"):
        op.drop_index(f"ix_decision_logs_{name}", "decision_logs")
    for name, columns in {
        "outcome": ["outcome_category", "created_at", "decision_type", "intent_type"],
        "category": ["category", "created_at", "decision_type", "intent_type"],
        "type": ["decision_type", "created_at", "outcome_category", "intent_type"],
        "intent": ["intent_type", "created_at", "outcome_category", "decision_type"],
        "model": ["model", "created_at"],
    }.items():
        op.create_index(f"ix_decision_logs_{name}", "decision_logs", columns)
    sent = ["invoked_at", "tool_name", "error_code", "success", "disposition", "duration_ms"]
    op.create_index("ix_tool_invocation_logs_sent", "tool_invocation_logs", sent)
    op.create_table(
        "baselines",
        sa.Column("baseline_id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("since", UtcDateTime),
        sa.Column("until", UtcDateTime),
        sa.Column("decisions", sa.Integer, nullable=False),
        sa.Column("profiles", JsonText, nullable=False),
        sa.UniqueConstraint("name", name="uq_baselines_name"),
    )
    op.create_table(
        "reports",
        sa.Column("report_id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("report", JsonText, nullable=False),
    )
    op.create_index("ix_reports_kind", "reports", ["kind", "created_at"])

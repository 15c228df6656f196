"""Decisions, tool invocations, model calls, the entries of open turns, and shared texts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db import JsonText, UtcDateTime

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "decision_logs",
        sa.Column("decision_id", sa.String(64), primary_key=True),
        sa.Column("conversation_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("intent_type", sa.String(32)),
        sa.Column("confidence", sa.Float),
        sa.Column("extracted_params", JsonText),
        sa.Column("decision_type", sa.String(32), nullable=False),
        sa.Column("outcome_category", sa.String(64), nullable=False),
        sa.Column("category", sa.String(16), nullable=False),
        sa.Column("response_text", sa.Text),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("ended_at", UtcDateTime),
        sa.Column("duration_ms", sa.Integer, nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("model", sa.String(255)),
        sa.Column("constitution", sa.String(64)),
        sa.Column("prompt_tokens", sa.Integer),
        sa.Column("completion_tokens", sa.Integer),
        sa.Column("total_tokens", sa.Integer),
        sa.Column("iterations", sa.Integer),
        sa.Column("states", JsonText),
        sa.Column("header", sa.Text),
        sa.Column("record", sa.Text),
        sa.CheckConstraint("status IN ('PENDING', 'completed', 'interrupted')", name="status"),
        sa.CheckConstraint("status = 'PENDING' OR ended_at IS NOT NULL", name="terminal_has_an_end"),
    )
    for name, columns in {
        "ix_decision_logs_created_at": ["created_at"],
        "ix_decision_logs_user": ["user_id", "created_at"],
        "ix_decision_logs_conversation": ["conversation_id", "created_at"],
        "ix_decision_logs_outcome": ["outcome_category", "created_at"],
        "ix_decision_logs_category": ["category", "created_at"],
        "ix_decision_logs_type": ["decision_type", "created_at"],
    }.items():
        op.create_index(name, "decision_logs", columns)
    pending = sa.text("status = 'PENDING'")
    op.create_index("ix_decision_logs_open", "decision_logs", ["created_at"], sqlite_where=pending, postgresql_where=pending)
    op.create_table(
        "tool_invocation_logs",
        sa.Column("decision_id", sa.String(64), _decision_key(), primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True),
        sa.Column("tool_name", sa.Text, nullable=False),
        sa.Column("parameters", JsonText),
        sa.Column("disposition", sa.String(32), nullable=False),
        sa.Column("result", JsonText),
        sa.Column("success", sa.Boolean, nullable=False),
        sa.Column("error_code", sa.String(32)),
        sa.Column("error_message", sa.Text),
        sa.Column("duration_ms", sa.Integer, nullable=False),
        sa.Column("invoked_at", UtcDateTime, nullable=False),
    )
    op.create_table(
        "llm_call_logs",
        sa.Column("decision_id", sa.String(64), _decision_key(), primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True),
        sa.Column("response", JsonText, nullable=False),
        sa.Column("finish_reason", sa.String(16), nullable=False),
        sa.Column("error", sa.String(32)),
        sa.Column("prompt_tokens", sa.Integer),
        sa.Column("completion_tokens", sa.Integer),
        sa.Column("total_tokens", sa.Integer),
        sa.Column("duration_ms", sa.Integer, nullable=False),
        sa.Column("request_digest", sa.String(64), nullable=False),
    )
    op.create_table(
        "record_entries",
        sa.Column("decision_id", sa.String(64), _decision_key(), primary_key=True),
        sa.Column("n", sa.Integer, primary_key=True),
        sa.Column("entry", JsonText, nullable=False),
    )
    op.create_table(
        "record_blobs",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )


def _decision_key() -> sa.ForeignKey:
    return sa.ForeignKey("decision_logs.decision_id")

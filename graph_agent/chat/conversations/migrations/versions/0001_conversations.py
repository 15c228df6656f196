"""Conversations, messages, turns, the limit of turns, and confirmations that were used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db import JsonText, UtcDateTime, UuidText

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("title", sa.String(80), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("pending", JsonText()),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
    )
    op.create_index("ix_conversations_user_id_updated_at", "conversations", ["user_id", "updated_at", "id"])
    op.create_table(
        "turns",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("idem_key", sa.String(255)),
        sa.Column("body_digest", sa.String(64), nullable=False),
        sa.Column("conversation_id", UuidText(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("owner", UuidText(), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("lease_until", UtcDateTime(), nullable=False),
        sa.Column("answer", JsonText()),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.ForeignKeyConstraint(["conversation_id"], ["conversations.id"], name="fk_turns_conversation_id_conversations"),
        sa.CheckConstraint("state IN ('running', 'done')", name="ck_turns_state"),
        sa.CheckConstraint("(state = 'done') = (answer IS NOT NULL)", name="ck_turns_answer_iff_done"),
    )
    running = sa.text("state = 'running'")
    op.create_index("uq_turns_user_id_idem_key", "turns", ["user_id", "idem_key"], unique=True)
    for name, columns, unique in (
        ("uq_turns_conversation_id_running", ["conversation_id"], True),
        ("ix_turns_lease_until_running", ["lease_until"], False),
    ):
        op.create_index(name, "turns", columns, unique=unique, sqlite_where=running, postgresql_where=running)
    op.create_table(
        "messages",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True),
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("conversation_id", UuidText(), nullable=False),
        sa.Column("role", sa.String(32), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("effects", JsonText()),
        sa.Column("decision_id", UuidText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_messages"),
        sa.ForeignKeyConstraint(["conversation_id"], ["conversations.id"], name="fk_messages_conversation_id_conversations"),
        sa.CheckConstraint("role IN ('user', 'assistant')", name="ck_messages_role"),
    )
    op.create_index("uq_messages_id", "messages", ["id"], unique=True)
    op.create_index("uq_messages_decision_id_role", "messages", ["decision_id", "role"], unique=True)
    op.create_index("ix_messages_conversation_id_number", "messages", ["conversation_id", "number"])
    op.create_table(
        "turn_limits",
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("window_started_at", UtcDateTime(), nullable=False),
        sa.Column("turns", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_turn_limits"),
    )
    op.create_table(
        "used_confirmations",
        sa.Column("pending_id", sa.String(255), nullable=False),
        sa.Column("decision_id", sa.String(64), nullable=False),
        sa.Column("used_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("pending_id", name="pk_used_confirmations"),
    )


def downgrade() -> None:
    for name in ("used_confirmations", "turn_limits", "messages", "turns", "conversations"):
        op.drop_table(name)

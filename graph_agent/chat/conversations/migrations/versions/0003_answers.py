"""Answers to pending actions by id: the questions that were asked, a turn's answer, and the notices of a message."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db import JsonText, UtcDateTime, UuidText

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("turns", sa.Column("answers", JsonText()))
    op.add_column("messages", sa.Column("notices", JsonText()))
    op.create_table(
        "asked_confirmations",
        sa.Column("pending_id", sa.String(255), nullable=False),
        sa.Column("conversation_id", UuidText(), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("pending_id", name="pk_asked_confirmations"),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name="fk_asked_confirmations_conversation_id_conversations"
        ),
    )

"""Add the plans that people have agreed to, and the calls that were made under them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_STATES = "'open', 'used', 'revoked', 'expired', 'void'"


def upgrade() -> None:
    time = sa.DateTime(timezone=True) if op.get_bind().dialect.name == "postgresql" else sa.String(32)
    op.create_table(
        "mandates",
        sa.Column("id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("conversation_id", sa.String(255), nullable=False),
        sa.Column("decision_id", sa.String(64), nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("asked_under", sa.Text, nullable=False),
        sa.Column("created_at", time, nullable=False),
        sa.Column("until", time, nullable=False),
        sa.Column("mac", sa.String(64), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("ended_at", time),
        sa.Column("ended_by", sa.String(255)),
        sa.PrimaryKeyConstraint("id", name="pk_mandates"),
        sa.CheckConstraint(f"state IN ({_STATES})", name="ck_mandates_state"),
        sa.CheckConstraint("(state = 'open') = (ended_at IS NULL)", name="ck_mandates_ended_iff_not_open"),
    )
    op.create_index("ix_mandates_user_id", "mandates", ["user_id", "conversation_id"])
    op.create_index("ix_mandates_created_at", "mandates", ["created_at"])
    op.create_table(
        "mandate_draws",
        sa.Column("operation_key", sa.String(255), nullable=False),
        sa.Column("mandate_id", sa.String(255), nullable=False),
        sa.Column("line", sa.Integer, nullable=False),
        sa.Column("decision_id", sa.String(64), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("amounts", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("operation_key", name="pk_mandate_draws"),
    )
    op.create_index("ix_mandate_draws_mandate_id", "mandate_draws", ["mandate_id", "line"])

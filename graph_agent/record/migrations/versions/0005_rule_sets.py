"""Add rule sets and their activations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    time = sa.DateTime(timezone=True) if op.get_bind().dialect.name == "postgresql" else sa.String(32)
    op.create_table(
        "rule_sets",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("parts", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_rule_sets"),
    )
    op.create_table(
        "rule_activations",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("at", time, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_rule_activations"),
    )

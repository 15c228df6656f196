"""Add what operators activate to the activations of rule sets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    for column in (
        sa.Column("kind", sa.String(16), nullable=False, server_default="followed"),
        sa.Column("made_by", sa.String(255), nullable=False, server_default=""),
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
        sa.Column("floor", sa.Integer),
        sa.Column("mac", sa.String(64)),
    ):
        op.add_column("rule_activations", column)
    by_operator = sa.text("kind <> 'followed'")
    op.create_index(
        "ix_rule_activations_by_operator",
        "rule_activations",
        ["number"],
        sqlite_where=by_operator,
        postgresql_where=by_operator,
    )

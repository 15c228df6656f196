"""Tamper evidence: chains, and the position of each record in its chain."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db import UtcDateTime

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "record_chains",
        sa.Column("chain", sa.String(36), primary_key=True),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("key_id", sa.String(16)),
        sa.Column("signed_n", sa.Integer, nullable=False),
        sa.Column("signed_mac", sa.String(64), nullable=False),
        sa.Column("signature", sa.String(64), nullable=False),
        # The prune marker of the chain: the last position whose record was removed, the seal there, and a signature.
        sa.Column("cut_n", sa.Integer, nullable=False, server_default="0"),
        sa.Column("cut_mac", sa.String(64), nullable=False, server_default=""),
        sa.Column("cut_signature", sa.String(64)),
    )
    op.create_table(
        "record_links",
        sa.Column("chain", sa.String(36), primary_key=True),
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("decision_id", sa.String(64), nullable=False),
        sa.Column("mac", sa.String(64), nullable=False),
        # The signature of a removal: its decision was removed by retention.
        sa.Column("cut", sa.String(64)),
        sa.UniqueConstraint("decision_id", name="uq_record_links_decision_id"),
    )

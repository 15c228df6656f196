"""The counts of the metrics of each hour. The sweeper writes them, also those of the hours before this migration."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db import JsonText, UtcDateTime

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "metrics_hours",
        sa.Column("hour", UtcDateTime, nullable=False),
        sa.Column("counts", JsonText, nullable=False),
        sa.PrimaryKeyConstraint("hour", name="pk_metrics_hours"),
    )

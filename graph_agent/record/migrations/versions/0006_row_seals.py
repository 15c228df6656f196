"""Seals of baselines and reports, which revision 0011 replaces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    for table in ("baselines", "reports"):
        op.add_column(table, sa.Column("seal", sa.String(64)))

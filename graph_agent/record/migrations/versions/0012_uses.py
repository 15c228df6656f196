"""An index of the calls that budgets count."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    counted = sa.text("amounts IS NOT NULL")
    op.create_index(
        "ix_call_operations_uses",
        "call_operations",
        ["user_id", "intended_at"],
        sqlite_where=counted,
        postgresql_where=counted,
    )

"""An index of the calls that were refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    refused = sa.text("disposition = 'refused'")
    op.create_index(
        "ix_tool_invocation_logs_refused",
        "tool_invocation_logs",
        ["decision_id"],
        sqlite_where=refused,
        postgresql_where=refused,
    )

"""Drop the table of model calls, which the record has, and that of baselines."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    # Rows of model calls refer to their decision: it could not be pruned any more.
    op.execute("DROP TABLE IF EXISTS llm_call_logs")
    op.execute("DROP TABLE IF EXISTS baselines")

"""The model that answered, beside the model that was requested, and the tokens that a provider read from its cache."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for table in ("decision_logs", "llm_call_logs"):
        op.add_column(table, sa.Column("response_model", sa.String(255)))
        op.add_column(table, sa.Column("cached_tokens", sa.Integer))

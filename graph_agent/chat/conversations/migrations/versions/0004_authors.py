"""The authors of the texts of a message."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db import JsonText

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("messages", sa.Column("authors", JsonText()))

"""The authors of a message's texts; a turn that its user has stopped, and whose answer is read from its opening row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db import JsonText

revision = "0006"
down_revision = None


def upgrade() -> None:
    found = sa.inspect(op.get_bind())
    messages, turns = ({column["name"] for column in found.get_columns(table)} for table in ("messages", "turns"))
    if "authors" not in messages:
        op.add_column("messages", sa.Column("authors", JsonText()))
    if "answers" in turns:
        op.drop_column("turns", "answers")
    op.add_column("turns", sa.Column("stopped", sa.Boolean()))

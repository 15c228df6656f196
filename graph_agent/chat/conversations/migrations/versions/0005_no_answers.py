"""A turn's answer to a pending action is read from its opening row, which is committed with it."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.drop_column("turns", "answers")

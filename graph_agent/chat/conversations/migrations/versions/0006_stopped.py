"""A turn that its user has stopped, so that the process that runs it learns of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("turns", sa.Column("stopped", sa.Boolean()))

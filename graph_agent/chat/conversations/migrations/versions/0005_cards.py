"""Messages have the calls that people read about, and say whether a card shows them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("messages")}
    for column in (sa.Column("calls", sa.Text), sa.Column("in_card", sa.Boolean)):
        if column.name not in known:
            op.add_column("messages", column)

"""The seal of opening rows.

Rows that are open now are sealed once, here: later every open row must have been sealed by its writer. Closed rows from before
have no seal of their opening; the seal of their record covers them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from graph_agent.record.sealer import Sealer

revision = "0005"
down_revision = "0004"

_COLUMNS = ("decision_id", "conversation_id", "user_id", "message", "header")


def upgrade() -> None:
    op.add_column("decision_logs", sa.Column("opening_seal", sa.String(64)))
    logs = sa.table("decision_logs", *(sa.column(name) for name in (*_COLUMNS, "status", "opening_seal")))
    connection = op.get_bind()
    still_open = connection.execute(sa.select(*(logs.c[name] for name in _COLUMNS)).where(logs.c.status == "PENDING")).all()
    read_key = context.config.attributes.get("record_key")
    if not still_open or read_key is None:
        return
    sealer = Sealer(read_key())
    for row in still_open:
        sealed = logs.update().where(logs.c.decision_id == row.decision_id).values(opening_seal=sealer.opening(*row))
        connection.execute(sealed)

"""Unknown outcomes are due work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_PUT = """
INSERT INTO due (kind, key, lane, user_id, due_at, set_at, attempts)
SELECT 'settle', decision_id || ':' || sequence, '', user_id, intended_at, intended_at, 0 FROM call_operations
WHERE state = 'unknown' AND intended_at >= {since} ON CONFLICT (kind, key) DO NOTHING
"""


def upgrade() -> None:
    connection = op.get_bind()
    # A database may have conversations without a record, in which nothing is unknown.
    if not sa.inspect(connection).has_table("call_operations"):
        return
    since = datetime.now(UTC) - timedelta(days=1)
    connection.execute(sa.text(_PUT.format(since=f"'{since.isoformat(timespec='microseconds')}'")))

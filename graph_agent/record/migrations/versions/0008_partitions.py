"""Partitions by time of the large tables, on PostgreSQL.

All rows are copied into new tables: nothing else may use the log meanwhile, and it needs as much free space as they take.
The foreign keys to decisions are gone, because a partition that others reference cannot be dropped. SQLite has no partitions.
"""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from graph_agent.record.partitions import CREATED_AHEAD, create_days, create_outer_partitions

revision = "0008"
down_revision = "0007"

_TABLES = ("decision_logs", "tool_invocation_logs", "llm_call_logs")
_FOREIGN_KEYS = (
    "SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'f' AND confrelid = 'decision_logs'::regclass"
)
_KEY = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'p' AND conrelid = '{table}'::regclass"
_INDEXES = "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = '{table}'::regclass AND NOT indisprimary"


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    for table, name in connection.execute(sa.text(_FOREIGN_KEYS)).all():
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    definitions = {}
    for table in _TABLES:
        key, columns = connection.execute(sa.text(_KEY.format(table=table))).one()
        indexes = connection.execute(sa.text(_INDEXES.format(table=table))).scalars().all()
        definitions[table] = [f"ALTER TABLE {table} ADD CONSTRAINT {key} {columns}", *indexes]
        op.execute(f"ALTER TABLE {table} RENAME TO {table}_unpartitioned")
        like = f"LIKE {table}_unpartitioned INCLUDING DEFAULTS INCLUDING CONSTRAINTS"
        op.execute(f"CREATE TABLE {table} ({like}) PARTITION BY RANGE (decision_id)")
    create_outer_partitions(connection)
    for table in _TABLES:
        op.execute(f"INSERT INTO {table} SELECT * FROM {table}_unpartitioned")
        op.execute(f"DROP TABLE {table}_unpartitioned")
        # Later than the rows, which is faster.
        for statement in definitions[table]:
            op.execute(statement)
    now = datetime.now(UTC)
    create_days(connection, now, now + CREATED_AHEAD)

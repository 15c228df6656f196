"""Questions to users are in a table of their own. One that waited for a yes is asked again."""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_OF_MESSAGES = ("question_expires_at", "question_state")


def upgrade() -> None:
    # A question was valid for five minutes, and its row has a MAC that a migration cannot make.
    op.execute("DROP TABLE IF EXISTS asked_confirmations")
    op.execute("DROP TABLE IF EXISTS used_confirmations")
    connection = op.get_bind()
    _drop(connection, "conversations", ("pending",))
    _drop(connection, "messages", _OF_MESSAGES)


def _drop(connection: sa.Connection, table: str, names: tuple[str, ...]) -> None:
    """Drop those of these columns that a table has."""
    old = [column["name"] for column in sa.inspect(connection).get_columns(table)]
    if not set(names) & set(old):
        return
    if connection.dialect.name == "postgresql":
        for name in names:
            op.drop_column(table, name)
        return
    # SQLite drops no column that a CHECK names: the table is made anew. What refers to its rows does so again at the commit.
    run = connection.exec_driver_sql
    run("PRAGMA defer_foreign_keys=ON")
    made = (
        run(f"SELECT sql FROM sqlite_master WHERE tbl_name = '{table}' AND sql IS NOT NULL ORDER BY type DESC").scalars().all()
    )
    kept = ", ".join(name for name in old if name not in names)
    run(f"CREATE TABLE {table}_old AS SELECT {kept} FROM {table}")
    run(f"DROP TABLE {table}")
    for sql in made:
        lines = (line for line in sql.splitlines() if not any(re.search(rf"\b{name}\b", line) for name in names))
        run(re.sub(r",\s*\)\s*$", "\n)", "\n".join(lines)))
    run(f"INSERT INTO {table} ({kept}) SELECT {kept} FROM {table}_old")
    run(f"DROP TABLE {table}_old")

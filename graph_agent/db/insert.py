"""One statement the two databases spell differently."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_new(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; those whose key stands already are left as they are."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(postgresql.insert(table).on_conflict_do_nothing(), rows)
    else:
        connection.execute(sqlite.insert(table).on_conflict_do_nothing(), rows)


def insert_or_replace(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; those whose primary key stands already are overwritten, every column of them."""
    if not rows:
        return
    statement = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)
    keys = [column.name for column in table.primary_key]
    fresh = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=fresh), rows)

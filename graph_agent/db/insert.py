"""One statement the two databases spell differently.

Built once for a table and a dialect: making one costs more than running it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.base import Executable


def insert_new(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; those whose key stands already are left as they are."""
    if rows:
        connection.execute(_inserting_new(table, connection.dialect.name), rows)


def insert_or_replace(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; those whose primary key stands already are overwritten, every column of them."""
    if rows:
        connection.execute(_inserting_or_replacing(table, connection.dialect.name), rows)


@cache
def _inserting_new(table: Table, dialect: str) -> Executable:
    return _insert(table, dialect).on_conflict_do_nothing()


@cache
def _inserting_or_replacing(table: Table, dialect: str) -> Executable:
    statement = _insert(table, dialect)
    keys = [column.name for column in table.primary_key]
    fresh = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=fresh)


def _insert(table: Table, dialect: str) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)

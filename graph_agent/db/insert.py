"""INSERT .. ON CONFLICT, which SQLAlchemy builds differently for each dialect.

Statements are cached by table and dialect, because building one takes longer than running it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.base import Executable


def insert_new(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; a row whose key exists already is left unchanged."""
    if rows:
        connection.execute(_insert_new_statement(table, connection.dialect.name), rows)


def insert_or_replace(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; a row whose primary key exists already is overwritten in every column."""
    if rows:
        connection.execute(_insert_or_replace_statement(table, connection.dialect.name), rows)


@cache
def _insert_new_statement(table: Table, dialect: str) -> Executable:
    return _insert(table, dialect).on_conflict_do_nothing()


@cache
def _insert_or_replace_statement(table: Table, dialect: str) -> Executable:
    statement = _insert(table, dialect)
    keys = [column.name for column in table.primary_key]
    fresh = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=fresh)


def _insert(table: Table, dialect: str) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)

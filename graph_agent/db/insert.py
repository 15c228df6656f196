"""INSERT .. ON CONFLICT, which SQLAlchemy builds differently for each dialect.

Statements are cached by table, because building one takes longer than running it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Table, or_
from sqlalchemy.dialects import postgresql, sqlite

from graph_agent.db.prepared import PreparedStatement


def insert_new(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; a row whose key exists already is left unchanged."""
    _insert_new_statement(table).run_for_each(connection, rows)


def insert_or_replace(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; a row whose primary key exists already is overwritten in every column, unless it is the same."""
    _insert_or_replace_statement(table).run_for_each(connection, rows)


@cache
def _insert_new_statement(table: Table) -> PreparedStatement:
    return PreparedStatement(lambda dialect: insert_into(table, dialect).on_conflict_do_nothing())


@cache
def _insert_or_replace_statement(table: Table) -> PreparedStatement:
    def build(dialect: str) -> Executable:
        statement = insert_into(table, dialect)
        keys = [column.name for column in table.primary_key]
        fresh = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
        differs = or_(*(table.c[name].is_distinct_from(value) for name, value in fresh.items()))
        return statement.on_conflict_do_update(index_elements=keys, set_=fresh, where=differs)

    return PreparedStatement(build)


def insert_into(table: Table, dialect: str) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT that takes ON CONFLICT and RETURNING."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)

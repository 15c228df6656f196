"""Statements whose SQL is compiled once and sent straight to SQLite's driver, among them INSERT .. ON CONFLICT.

SQLAlchemy takes ten times as long to prepare a short statement as SQLite takes to run it. On PostgreSQL, where a statement
waits for the network, SQLAlchemy runs it as usual. The values are converted by the same types, and errors are SQLAlchemy's.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, Executable, Table, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from graph_agent.db.sqlite_engine import driver_connection

Values = Mapping[str, Any]


class PreparedStatement:
    """A statement that runs in the transaction of a `Database.write`."""

    def __init__(self, statement: Executable | Callable[[str], Executable]) -> None:
        """`statement` may be a function of the dialect's name, for SQL that SQLAlchemy builds differently for each dialect."""
        self._build: Callable[[str], Any] = (lambda _: statement) if isinstance(statement, Executable) else cache(statement)
        self._compiled: dict[tuple[str, ...], _Compiled] = {}
        """The compiled statements, by the names of their values: these decide which columns an INSERT or an UPDATE writes."""

    def run(self, connection: Connection, values: Values) -> int:
        """Run the statement, which returns no rows; return the number of rows that it has changed."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._build(connection.dialect.name), values).rowcount
        return self._for(connection, values).send(connection, values).rowcount

    def run_for_each(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Run the statement, which returns no rows, with the values of each of `rows`."""
        if connection.dialect.name == "sqlite":
            for values in rows:
                self._for(connection, values).send(connection, values)
        elif rows:
            connection.execute(self._build(connection.dialect.name), rows)

    def first(self, connection: Connection, values: Values) -> Any:
        """Return the first row of a SELECT or of RETURNING, whose values can be read by name; None if there is none."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._build(connection.dialect.name), values).first()
        compiled = self._for(connection, values)
        cursor = compiled.send(connection, values)
        row = cursor.fetchone()
        # Without this the statement stays open, and SQLite cannot end its transaction.
        cursor.close()
        return None if row is None else compiled.read(row)

    def _for(self, connection: Connection, values: Values) -> _Compiled:
        names = tuple(values)
        if names not in self._compiled:
            self._compiled[names] = _Compiled(self._build("sqlite"), connection.dialect, names)
        return self._compiled[names]


class _Compiled:
    """The SQL of a statement for SQLite, and the conversion of its values."""

    def __init__(self, statement: Any, dialect: Dialect, names: Sequence[str]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=list(names))
        # SQLAlchemy would compute the default of a column at each call: its value has to be among `names`.
        assert not compiled.prefetch
        self._sql: str = compiled.string
        types = [(name, compiled.binds[name].type.dialect_impl(dialect)) for name in compiled.positiontup]
        self._binds = [(name, kind.bind_processor(dialect)) for name, kind in types]
        binds = compiled.binds.items()
        constants = {name: bind for name, bind in binds if name not in names and not bind.required}
        self._constants = {name: bind.value for name, bind in constants.items()}
        self._computed = {name: bind.callable for name, bind in constants.items() if bind.callable is not None}
        columns = list(statement.exported_columns)
        self._row: Any = namedtuple("_Row", [column.name for column in columns])  # type: ignore[misc]  # known only here
        self._readers = [column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns]

    def send(self, connection: Connection, values: Values) -> sqlite3.Cursor:
        given = {**self._constants, **{name: compute() for name, compute in self._computed.items()}, **values}
        try:
            parameters = [given[name] if convert is None else convert(given[name]) for name, convert in self._binds]
            return driver_connection(connection).execute(self._sql, parameters)
        except Exception as error:
            raise DBAPIError.instance(self._sql, None, error, sqlite3.Error, hide_parameters=True) from error

    def read(self, row: Sequence[Any]) -> Any:
        """Return a row of the driver with its values as Python objects."""
        pairs = zip(row, self._readers, strict=True)
        return self._row._make(value if convert is None else convert(value) for value, convert in pairs)


def insert_new(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; a row whose key exists already is left unchanged."""
    _insert_new_statement(table).run_for_each(connection, rows)


def insert_or_replace(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`; a row whose primary key exists already is overwritten in every column, unless it is the same."""
    _insert_or_replace_statement(table).run_for_each(connection, rows)


# Cached, because building a statement takes longer than running it.
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

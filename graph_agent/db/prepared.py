"""Statements whose SQL is compiled once and sent straight to the driver, among them INSERT .. ON CONFLICT.

SQLAlchemy takes ten times as long to prepare a short statement as SQLite takes to run it, and a third of what a write to
PostgreSQL costs. The values are converted by the same types, and errors are SQLAlchemy's.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Dialect, Executable, Table, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

Values = Mapping[str, Any]


class PreparedStatement:
    """A statement that runs in the transaction of a `Database.write`."""

    def __init__(self, statement: Executable | Callable[[str], Executable]) -> None:
        """`statement` may be a function of the dialect's name, for SQL that SQLAlchemy builds differently for each dialect."""
        self._build: Callable[[str], Any] = (lambda _: statement) if isinstance(statement, Executable) else statement
        self._compiled: dict[tuple[str, ...], _Compiled] = {}
        """The compiled statements, by the dialect and the names of their values: these decide which columns are written."""

    def run(self, connection: Connection, values: Values) -> int:
        """Run the statement, which returns no rows; return the number of rows that it has changed."""
        changed: int = self._for(connection, values).send(connection, values).rowcount
        return changed

    def run_for_each(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Run the statement, which returns no rows, with the values of each of `rows`."""
        for compiled, group in groupby(rows, partial(self._for, connection)):
            compiled.send_all(connection, list(group))

    def first(self, connection: Connection, values: Values) -> Any:
        """Return the first row of a SELECT or of RETURNING, whose values can be read by name; None if there is none."""
        compiled = self._for(connection, values)
        cursor = compiled.send(connection, values)
        row = cursor.fetchone()
        # Without this the statement stays open, and SQLite cannot end its transaction.
        cursor.close()
        return None if row is None else compiled.read(row)

    def _for(self, connection: Connection, values: Values) -> _Compiled:
        dialect = connection.dialect
        key = (dialect.name, *values)
        if key not in self._compiled:
            self._compiled[key] = _Compiled(self._build(dialect.name), dialect, tuple(values))
        return self._compiled[key]


class _Compiled:
    """The SQL of a statement for one dialect, and the conversion of its values."""

    def __init__(self, statement: Any, dialect: Dialect, names: Sequence[str]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=list(names))
        # SQLAlchemy would compute the default of a column at each call: its value has to be among `names`.
        assert not compiled.prefetch
        self._sql: str = compiled.string
        self._dialect = dialect
        self._by_position: bool = compiled.positional
        types = [(name, compiled.binds[name].type.dialect_impl(dialect)) for name in compiled.positiontup or compiled.binds]
        self._binds = [(name, kind.bind_processor(dialect)) for name, kind in types]
        self._names = [name for name, _ in types]
        binds = compiled.binds.items()
        constants = {name: bind for name, bind in binds if name not in names and not bind.required}
        self._constants = {name: bind.value for name, bind in constants.items()}
        self._computed = {name: bind.callable for name, bind in constants.items() if bind.callable is not None}
        columns = list(statement.exported_columns)
        self._row: Any = namedtuple("_Row", [column.name for column in columns])  # type: ignore[misc]  # known only here
        self._readers = [column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns]

    def send(self, connection: Connection, values: Values) -> Any:
        """Run the statement and return the driver's cursor. Raises SQLAlchemy's errors."""
        try:
            return _driver(connection).execute(self._sql, self._parameters(values))
        except Exception as error:
            raise self._translated(error) from error

    def send_all(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Run the statement for each of `rows`, on PostgreSQL without waiting for the reply to each."""
        if len(rows) == 1:
            self.send(connection, rows[0])
            return
        try:
            _driver(connection).cursor().executemany(self._sql, [self._parameters(values) for values in rows])
        except Exception as error:
            raise self._translated(error) from error

    def _parameters(self, values: Values) -> Any:
        given = values
        if self._constants:
            given = {**self._constants, **{name: compute() for name, compute in self._computed.items()}, **values}
        bound = [given[name] if convert is None else convert(given[name]) for name, convert in self._binds]
        return bound if self._by_position else dict(zip(self._names, bound, strict=True))

    def _translated(self, error: Exception) -> BaseException:
        raised = self._dialect.loaded_dbapi.Error
        return DBAPIError.instance(self._sql, None, error, raised, hide_parameters=True, dialect=self._dialect)

    def read(self, row: Sequence[Any]) -> Any:
        """Return a row of the driver with its values as Python objects."""
        pairs = zip(row, self._readers, strict=True)
        return self._row._make(value if convert is None else convert(value) for value, convert in pairs)


def _driver(connection: Connection) -> Any:
    # Both drivers' own connection: `driver_connection` returns the same through three more calls.
    return connection.connection.dbapi_connection


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

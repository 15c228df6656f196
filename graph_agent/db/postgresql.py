"""The PostgreSQL backend: psycopg 3 in a bounded thread pool, one connection for each thread."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import URL, ColumnElement, Connection, Interval, create_engine, func, literal, type_coerce
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from graph_agent.db.backend import DatabaseUnavailableError, Reply, Submissions, Work, committed_calls
from graph_agent.db.types import UtcDateTime
from graph_agent.errors import ConfigurationError

T = TypeVar("T")

CONNECTIONS = 12
"""The default number of connections of a process to one database."""
CLOSING_CONNECTIONS = 2
"""The number of these connections that are used only to close turns."""
CONNECT_TIMEOUT_SECONDS = 5
LOCK_TIMEOUT_MS = 5000
"""Time that a statement of a write waits for a lock of another transaction."""

# Sent as one query, for one round trip. LOCAL, because a pooler such as PgBouncer in transaction mode may give each
# transaction another connection of the server: a setting of the session would be missing there, or apply to others.
# READ COMMITTED, so that a statement behind a lock sees what its last holder has committed.
BEGIN_WRITE = f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"
"""The begin of a transaction that writes; it waits for a lock for a limited time."""
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_UNAVAILABLE_CLASSES = ("08", "40", "53", "55", "57", "58", "XX")
"""SQLSTATE classes: connection exception, transaction rollback (deadlock, serialization), insufficient resources (disk full),
object not in prerequisite state (lock not available), operator intervention (shutdown), system error, internal error."""
_UNAVAILABLE_STATES = {
    "25006": "it can only be read, as a standby or during a failover",
    "25P03": "it ended an idle transaction",
    "25P04": "it ended a long transaction",
}
"""States of the class 25, whose others are faults of the program, with what may be shown."""


class PostgresqlBackend(Submissions):
    """A pool of threads, each of which runs one transaction at a time; reads and writes share it.

    The writes that close turns have their own threads, so that they do not wait for the starts of other turns.
    """

    dialect = "postgresql"

    def __init__(self, url: URL, connections: int = CONNECTIONS) -> None:
        if importlib.util.find_spec("psycopg") is None:
            raise ConfigurationError("PostgreSQL needs the extra: pip install 'graph-agent[postgresql]'")
        super().__init__()
        self._engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            pool_size=connections,
            max_overflow=0,
            hide_parameters=True,
            # The driver does not begin transactions; `_begun` does.
            isolation_level="AUTOCOMMIT",
            # A prepared statement belongs to a connection of the server, which the next transaction may not get.
            connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS, "prepare_threshold": None},
        )
        dbapi = self._engine.dialect.loaded_dbapi
        self._driver_error, self._interface_error = dbapi.Error, dbapi.InterfaceError
        self._connections = connections
        self._threads = ThreadPoolExecutor(connections - CLOSING_CONNECTIONS, thread_name_prefix="postgresql")
        self._closing = ThreadPoolExecutor(CLOSING_CONNECTIONS, thread_name_prefix="postgresql-closing")

    def submit_write(self, work: Work[T], reply: Reply[T], *, closing: bool = False) -> None:
        threads = self._closing if closing else self._threads
        self._submit(threads.submit, self._run, BEGIN_WRITE, work, reply)

    def submit_read(self, work: Work[T], reply: Reply[T]) -> None:
        self._submit(self._threads.submit, self._run, _BEGIN_READ, work, reply)

    def time(self, after: timedelta) -> ColumnElement[datetime]:
        return self.shifted(func.statement_timestamp(), after)

    def shifted(self, at: ColumnElement[datetime], after: timedelta) -> ColumnElement[datetime]:
        return type_coerce(at + literal(after, Interval), UtcDateTime)

    def close(self) -> None:
        with self._submitting:
            self._closed = True
        self._threads.shutdown(wait=True)
        self._closing.shutdown(wait=True)
        self._engine.dispose()

    def _run(self, begin: str, work: Work[T], reply: Reply[T]) -> None:
        committing, driver = False, None
        try:
            with self._begun(begin) as connection:
                driver = _driver(connection)
                calls = committed_calls(connection)
                calls.clear()
                result = work(connection)
                if begin == BEGIN_WRITE:
                    committing = True
                    driver.commit()
                    committing = False
                    for call in calls:
                        call()
        except BaseException as error:  # also SystemExit: the caller waits for the reply
            ended = driver is not None and driver.closed
            reply.set_exception(self._translated(error, committing=committing, ended=ended))
        else:
            reply.set_result(result)

    @contextmanager
    def _begun(self, begin: str) -> Iterator[Connection]:
        """Yield a connection whose transaction has begun; without a commit it is rolled back.

        A pooled connection may have ended meanwhile. BEGIN shows it, without a round trip of its own; then the next one is
        tried. If all have ended, the pool opens another. A connection that cannot be opened raises at once.
        """
        for left in range(self._connections, -1, -1):
            with self._engine.connect() as connection:
                driver = _driver(connection)
                try:
                    driver.execute(begin)
                except self._driver_error:
                    if not left or not driver.closed:
                        raise
                    connection.invalidate()
                    continue
                try:
                    yield connection
                finally:
                    if driver.closed and not connection.invalidated:
                        # The pool would try to roll it back.
                        connection.invalidate()
                return

    def _translated(self, error: BaseException, *, committing: bool, ended: bool) -> BaseException:
        """Return `DatabaseUnavailableError` for a failure of the database, and any other error unchanged.

        `ended` is true if the connection has ended.
        """
        if isinstance(error, PoolTimeoutError):
            return DatabaseUnavailableError.caused_by(error)
        original = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(original, self._driver_error):
            return error
        state = getattr(original, "sqlstate", None)
        # A commit that got an error reply was rolled back. If the connection ended before a reply, it may have taken effect.
        lost = ended or isinstance(original, self._interface_error) or state is None
        reason = _UNAVAILABLE_STATES.get(str(state), "")
        if lost or reason or str(state)[:2] in _UNAVAILABLE_CLASSES:
            return DatabaseUnavailableError.caused_by(error, reason, unknown=committing and lost)
        return error


def _driver(connection: Connection) -> Any:
    """Return the driver's connection."""
    return connection.connection.driver_connection

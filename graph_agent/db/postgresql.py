"""The PostgreSQL backend: psycopg 3 in a bounded thread pool, one connection for each thread."""

from __future__ import annotations

import importlib.util
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import URL, ColumnElement, Interval, create_engine, func, literal, type_coerce
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from graph_agent.db.backend import DatabaseUnavailableError, Submissions, Work
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
_BEGIN_WRITE = f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_UNAVAILABLE_CLASSES = ("08", "40", "53", "55", "57", "58", "XX")
"""SQLSTATE classes: connection exception, transaction rollback (deadlock, serialization), insufficient resources (disk full),
object not in prerequisite state (lock not available), operator intervention (shutdown), system error, internal error."""


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
            pool_pre_ping=True,
            hide_parameters=True,
            # The driver does not begin transactions; `_run` does.
            isolation_level="AUTOCOMMIT",
            # A prepared statement belongs to a connection of the server, which the next transaction may not get.
            connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS, "prepare_threshold": None},
        )
        self._threads = ThreadPoolExecutor(connections - CLOSING_CONNECTIONS, thread_name_prefix="postgresql")
        self._closing = ThreadPoolExecutor(CLOSING_CONNECTIONS, thread_name_prefix="postgresql-closing")

    def submit_write(self, work: Work[T], *, closing: bool = False) -> Future[T]:
        threads = self._closing if closing else self._threads
        return self._submit(lambda future: threads.submit(self._run, _BEGIN_WRITE, work, future))

    def submit_read(self, work: Work[T]) -> Future[T]:
        return self._submit(lambda future: self._threads.submit(self._run, _BEGIN_READ, work, future))

    def time(self, after: timedelta) -> ColumnElement[datetime]:
        return type_coerce(func.statement_timestamp() + literal(after, Interval), UtcDateTime)

    def close(self) -> None:
        with self._submitting:
            self._closed = True
        self._threads.shutdown(wait=True)
        self._closing.shutdown(wait=True)
        self._engine.dispose()

    def _run(self, begin: str, work: Work[T], future: Future[T]) -> None:
        committing = False
        try:
            with self._engine.connect() as connection:
                # A transaction of the server, which ends with `commit` or `rollback` of the driver as usual.
                connection.exec_driver_sql(begin).close()
                result = work(connection)
                if begin == _BEGIN_WRITE:
                    committing = True
                    connection.commit()
        except BaseException as error:  # also SystemExit: the caller waits for the future
            future.set_exception(_translated(error, committing=committing))
        else:
            future.set_result(result)


def _translated(error: BaseException, *, committing: bool) -> BaseException:
    """Return `DatabaseUnavailableError` for a failure of the database, and any other error unchanged."""
    if isinstance(error, PoolTimeoutError):
        return DatabaseUnavailableError.caused_by(error)
    if not isinstance(error, DBAPIError):
        return error
    state = getattr(error.orig, "sqlstate", None)
    # A commit that got an error reply was rolled back. If the connection ended before a reply, it may have taken effect.
    lost = error.connection_invalidated or isinstance(error, InterfaceError) or state is None
    if lost or str(state)[:2] in _UNAVAILABLE_CLASSES:
        return DatabaseUnavailableError.caused_by(error, unknown=committing and lost)
    return error

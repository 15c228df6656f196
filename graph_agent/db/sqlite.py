"""SQLite: one writer thread per file with group commit, readers beside it.

Transactions are ours, not pysqlite's: `isolation_level=None` keeps the driver from opening any, and the engine's `begin` event
says BEGIN IMMEDIATE for the writer, so that a transaction which will write never starts as a reader that cannot be upgraded.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool, StaticPool

from graph_agent.db.errors import DatabaseUnavailableError
from graph_agent.db.lane import Work
from graph_agent.errors import ConfigurationError

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5000
"""How long a write waits for another process that writes the same file."""
BATCH = 64
"""The most items of one commit."""
READERS = 4

_UNAVAILABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)

_PRAGMAS = (
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
)


@dataclass(frozen=True, slots=True)
class _Item(Generic[T]):
    work: Work[T]
    future: Future[T]


class SqliteLanes:
    """The writer and the readers of one file. A database in memory has one connection, so its reads queue with the writes."""

    dialect = "sqlite"

    def __init__(self, url: URL) -> None:
        in_memory = url.database in (None, "", ":memory:")
        if not in_memory:
            _demand_folder(url)
        self._writing = _engine(url, "BEGIN IMMEDIATE", (), {"poolclass": StaticPool})
        self._queue: queue.SimpleQueue[_Item[Any] | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._reading: Engine | None = None
        if not in_memory:
            self._reading = _engine(
                url,
                "BEGIN",
                ("PRAGMA query_only=ON",),
                {"poolclass": QueuePool, "pool_size": READERS, "max_overflow": 0},
            )
            self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")
        self._starting = threading.Lock()
        self._closed = False

    def submit_write(self, work: Work[T]) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._starting:
            if self._closed:
                raise DatabaseUnavailableError("the database is closed")
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_forever, name="sqlite-writer", daemon=True)
                self._writer.start()
            self._queue.put(_Item(work, future))
        return future

    def submit_read(self, work: Work[T]) -> Future[T]:
        if self._readers is None or self._reading is None:
            return self.submit_write(work)
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._starting:
            if self._closed:
                raise DatabaseUnavailableError("the database is closed")
            self._readers.submit(_read, self._reading, _Item(work, future))
        return future

    def close(self) -> None:
        with self._starting:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        if self._writer is not None:
            self._writer.join()
        if self._readers is not None:
            self._readers.shutdown(wait=True)
        if self._reading is not None:
            self._reading.dispose()
        self._writing.dispose()

    def _write_forever(self) -> None:
        connection: Connection | None = None
        for batch in self._batches():
            try:
                if connection is None:
                    connection = self._writing.connect()
                _commit_together(connection, batch)
            except BaseException as error:
                _fail_all(batch, _translated(error))
            if connection is not None and not _settled(connection):
                connection = None
        if connection is not None:
            connection.close()

    def _batches(self) -> Iterator[list[_Item[Any]]]:
        """What is waiting, a batch at a time, until the closing mark has been reached."""
        while (first := self._queue.get()) is not None:
            batch = [first]
            closing = False
            with contextlib.suppress(queue.Empty):
                while len(batch) < BATCH:
                    item = self._queue.get_nowait()
                    if item is None:
                        closing = True
                        break
                    batch.append(item)
            yield batch
            if closing:
                return


def _commit_together(connection: Connection, batch: list[_Item[Any]]) -> None:
    """Run `batch` in one transaction. An item that raises is undone alone; a database that fails, fails them all."""
    driver = _driver(connection)
    done: list[tuple[_Item[Any], Any]] = []
    failed: list[tuple[_Item[Any], BaseException]] = []
    with connection.begin():
        for item in batch:
            driver.execute("SAVEPOINT item")
            try:
                done.append((item, item.work(connection)))
            except BaseException as error:
                translated = _translated(error)
                if isinstance(translated, DatabaseUnavailableError) or not driver.in_transaction:
                    raise
                driver.execute("ROLLBACK TO item")
                failed.append((item, translated))
            driver.execute("RELEASE item")
    for item, reason in failed:
        item.future.set_exception(reason)
    for item, result in done:
        item.future.set_result(result)


def _read(engine: Engine, item: _Item[Any]) -> None:
    try:
        with engine.connect() as connection:
            result = item.work(connection)
    except BaseException as error:
        item.future.set_exception(_translated(error))
    else:
        item.future.set_result(result)


def _fail_all(batch: list[_Item[Any]], error: BaseException) -> None:
    for item in batch:
        if not item.future.done():
            item.future.set_exception(error)


def _settled(connection: Connection) -> bool:
    """Whether the connection can take the next batch; one that cannot even roll back is thrown away."""
    try:
        if connection.in_transaction():
            connection.rollback()
        if not _driver(connection).in_transaction:
            return True
    except DBAPIError:
        pass
    connection.invalidate()
    connection.close()
    return False


def _translated(error: BaseException) -> BaseException:
    """`DatabaseUnavailableError` for what the database could not do, anything else as it is."""
    original = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(original, "sqlite_errorcode", None)
    # The low byte is the primary code; the rest says which of its kinds.
    if isinstance(original, sqlite3.Error) and code is not None and code & 0xFF in _UNAVAILABLE:
        unavailable = DatabaseUnavailableError()
        unavailable.__cause__ = error
        return unavailable
    return error


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _engine(url: URL, begin: str, pragmas: tuple[str, ...], pool: dict[str, Any]) -> Engine:
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        hide_parameters=True,
        connect_args={"check_same_thread": False, "isolation_level": None, "timeout": BUSY_TIMEOUT_MS / 1000},
        **pool,
    )

    def connected(driver: sqlite3.Connection, _record: object) -> None:
        for pragma in (*_PRAGMAS, *pragmas):
            driver.execute(pragma).close()

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", _begins_with(begin))
    return engine


def _begins_with(statement: str) -> Callable[[Connection], None]:
    def begin(connection: Connection) -> None:
        _driver(connection).execute(statement)

    return begin


def _demand_folder(url: URL) -> None:
    folder = Path(str(url.database)).parent
    if not str(url.database).startswith("file:") and not folder.is_dir():
        raise ConfigurationError(f"the folder of the SQLite database does not exist: {folder}")

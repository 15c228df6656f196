"""The SQLite backend: one writer thread per file with group commit, and a pool of reader threads.

SQLite admits one writer at a time, so one thread does all writes of the process. It commits up to `BATCH` waiting items in one
transaction, because a commit with `synchronous=FULL` costs an fsync however many rows it has. Writes that close a turn have a
queue of their own, which comes first.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import URL, ColumnElement, Connection, Engine, func, literal
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool, StaticPool

from graph_agent.db.backend import DatabaseUnavailableError, Reply, Submissions, Work, committed_calls
from graph_agent.db.sqlite_engine import SqliteFile, driver_connection, require_folder, sqlite_engine, translated_error
from graph_agent.db.types import UtcDateTime

T = TypeVar("T")

BATCH = 64
"""The largest number of items in one commit, apart from those that close turns."""
CLOSING_BATCH = 128
"""The largest number of items in one commit that close turns."""
_MIN_OTHERS = 8
"""The number of other items in each commit, however many turns are being closed."""
READERS = 4
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%f000+00:00"
"""The text of a time as `UtcDateTime` stores it. SQLite's clock has milliseconds."""


class _Item(NamedTuple):
    work: Work[Any]
    reply: Reply[Any]


_Settled = tuple[Callable[[Any], None], Any]
"""The method of a reply, and its argument."""


class SqliteBackend(Submissions):
    """The writer thread and the readers of one file. An in-memory database has one connection, also for reads."""

    dialect = "sqlite"

    def __init__(self, url: URL) -> None:
        super().__init__()
        in_memory = url.database in (None, "", ":memory:")
        if not in_memory:
            require_folder(url)
        # A `file:` URI has no plain path; an in-memory database has no file.
        plain = not in_memory and not str(url.database).startswith("file:")
        self._check_file = SqliteFile(Path(str(url.database))).check if plain else lambda: None
        self._writing = sqlite_engine(url, None, (), {"poolclass": StaticPool})
        self._closing: deque[_Item] = deque()
        self._others: deque[_Item] = deque()
        self._writer: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._reading: Engine | None = None
        if not in_memory:
            self._reading = sqlite_engine(
                url, "BEGIN", ("PRAGMA query_only=ON",), {"poolclass": QueuePool, "pool_size": READERS, "max_overflow": 0}
            )
            self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")

    def submit_write(self, work: Work[T], reply: Reply[T], *, closing: bool = False) -> None:
        self._submit(self._enqueue, self._closing if closing else self._others, _Item(work, reply))

    def submit_read(self, work: Work[T], reply: Reply[T]) -> None:
        readers, engine = self._readers, self._reading
        if readers is None or engine is None:
            self.submit_write(work, reply)
        else:
            self._submit(readers.submit, _read, engine, self._check_file, work, reply)

    def time(self, after: timedelta) -> ColumnElement[datetime]:
        # All processes of a file are on one host, so the time of the process is that of the database.
        return self.shifted(literal("now"), after)

    @staticmethod
    def shifted(at: ColumnElement[Any], after: timedelta) -> ColumnElement[datetime]:
        return func.strftime(_TIME_FORMAT, at, f"{after.total_seconds():+.3f} seconds", type_=UtcDateTime())

    def close(self) -> None:
        with self._submitting:
            if self._closed:
                return
            self._closed = True
            self._submitting.notify()
        if self._writer is not None:
            self._writer.join()
        if self._readers is not None:
            self._readers.shutdown(wait=True)
        if self._reading is not None:
            self._reading.dispose()
        self._writing.dispose()

    def _enqueue(self, queue: deque[_Item], item: _Item) -> None:
        if self._writer is None:
            self._writer = threading.Thread(target=self._run_writer, name="sqlite-writer", daemon=True)
            self._writer.start()
        queue.append(item)
        self._submitting.notify()

    def _run_writer(self) -> None:
        connection: Connection | None = None
        for batch in self._batches():
            try:
                if connection is None:
                    self._check_file()
                    connection = self._writing.connect()
                settled = _commit_together(connection, batch, self._check_file)
            except BaseException as error:  # also SystemExit: a dead writer thread would leave every caller waiting
                failure = translated_error(error)
                settled = [(item.reply.set_exception, failure) for item in batch]
            if connection is not None and not _is_usable(connection):
                connection = None
            # Only after the commit: a result must not be reported before it is durable.
            for settle, outcome in settled:
                settle(outcome)
        if connection is not None:
            connection.close()

    def _batches(self) -> Iterator[list[_Item]]:
        """Yield the waiting items in batches, until the queues are empty after `close`."""
        while True:
            with self._submitting:
                self._submitting.wait_for(lambda: self._closing or self._others or self._closed)
                batch = _take(self._closing, CLOSING_BATCH)
                batch += _take(self._others, max(BATCH - len(batch), _MIN_OTHERS))
            if not batch:
                return
            yield batch


def _take(queue: deque[_Item], count: int) -> list[_Item]:
    return [queue.popleft() for _ in range(min(count, len(queue)))]


def _commit_together(connection: Connection, batch: list[_Item], check_file: Callable[[], None]) -> list[_Settled]:
    """Run `batch` in one transaction; return what is to be answered after its commit.

    If this raises, nothing of the batch is committed, and the transaction may still be open. An item that raises is rolled back
    alone, to its savepoint; a failure of the database fails the whole batch.
    """
    driver = driver_connection(connection)
    settled: list[_Settled] = []
    calls = committed_calls(connection)
    calls.clear()
    driver.execute("BEGIN IMMEDIATE")
    if len(batch) == 1:
        # Its savepoint would be the whole transaction.
        try:
            settled.append((batch[0].reply.set_result, batch[0].work(connection)))
        except BaseException:
            # In a file that was replaced its rows are missing, for example.
            check_file()
            raise
    else:
        for item in batch:
            driver.execute("SAVEPOINT item")
            called = len(calls)
            try:
                settled.append((item.reply.set_result, item.work(connection)))
            except BaseException as error:
                translated = translated_error(error)
                # After some errors SQLite has rolled back the whole transaction, and the savepoint no longer exists.
                if isinstance(translated, DatabaseUnavailableError) or not driver.in_transaction:
                    raise
                driver.execute("ROLLBACK TO item")
                del calls[called:]
                settled.append((item.reply.set_exception, translated))
            driver.execute("RELEASE item")
    check_file()
    driver.commit()
    for call in calls:
        call()
    return settled


def _read(engine: Engine, check_file: Callable[[], None], work: Work[T], reply: Reply[T]) -> None:
    try:
        check_file()
        with engine.connect() as connection:
            result = work(connection)
    except BaseException as error:
        reply.set_exception(translated_error(error))
    else:
        reply.set_result(result)


def _is_usable(connection: Connection) -> bool:
    """True if the connection can take the next batch. It rolls back what is not committed; if it cannot, it is closed."""
    try:
        driver_connection(connection).rollback()
        if connection.in_transaction():
            # SQLAlchemy has begun one of its own with the first statement that went through it.
            connection.rollback()
        if not driver_connection(connection).in_transaction:
            return True
    except (DBAPIError, sqlite3.Error):
        pass
    connection.invalidate()
    connection.close()
    return False

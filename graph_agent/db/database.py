"""The `Database` class, and the choice of its backend by URL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from sqlalchemy import URL, Column, ColumnElement, Connection, Select, bindparam, delete, literal, make_url, select, tuple_
from sqlalchemy.exc import ArgumentError

from graph_agent.db.backend import Backend, LoopReply, Work, call_after_commit
from graph_agent.db.postgresql import CONNECTIONS, PostgresqlBackend
from graph_agent.db.sqlite import SqliteBackend
from graph_agent.db.types import UtcDateTime
from graph_agent.errors import ConfigurationError
from graph_agent.ports import Clock

T = TypeVar("T")
Run = Callable[[Callable[[Connection], Any]], Awaitable[Any]]
"""Runs work on a connection, like `Database.read` and `Database.write`."""

DELETED_AT_ONCE = 200
"""Rows that `delete_pages` deletes in one transaction."""

_closing: ContextVar[bool] = ContextVar("closing", default=False)


@contextmanager
def closing_writes() -> Iterator[None]:
    """Give the writes in this context, which end turns or keep their claims, a queue that does not wait for other writes."""
    token = _closing.set(True)
    try:
        yield
    finally:
        _closing.reset(token)


_BACKENDS: dict[str, type[PostgresqlBackend] | type[SqliteBackend]] = {
    "sqlite": SqliteBackend,
    "sqlite+pysqlite": SqliteBackend,
    "postgres": PostgresqlBackend,
    "postgresql": PostgresqlBackend,
    "postgresql+psycopg": PostgresqlBackend,
}


class Database:
    """Runs reads and writes on its own threads, for callers with or without an event loop.

    Submitted work runs to its commit or rollback even if the caller is cancelled. Raises `DatabaseUnavailableError` if the
    database is locked, full or unreachable. An exception of the work itself, for example `IntegrityError`, is raised unchanged
    after a rollback.
    """

    clock: Clock | None = None
    """A clock that a test sets in place of the database's own, before it opens services on the database."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._subscribers: dict[str, list[Callable[[], None]]] = {}
        self.dialect = backend.dialect
        """`sqlite` or `postgresql`."""

    @classmethod
    def open(cls, url: str, *, connections: int = CONNECTIONS) -> Self:
        """Open the database at a SQLAlchemy URL: `sqlite:///path`, `sqlite://` (in memory) or `postgresql://user@host/name`.

        Connects on first use, to PostgreSQL with at most so many `connections`. Raises `ConfigurationError`, whose text never
        contains the URL.
        """
        parsed, backend = parse_url(url)
        return cls(PostgresqlBackend(parsed, connections) if backend is PostgresqlBackend else backend(parsed))

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction and return its result after the commit."""
        reply: LoopReply[T] = LoopReply()
        self._backend.submit_write(work, reply, closing=_closing.get())
        return await reply.future

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a consistent snapshot, without waiting for writers."""
        reply: LoopReply[T] = LoopReply()
        self._backend.submit_read(work, reply)
        return await reply.future

    def write_now(self, work: Work[T]) -> T:
        """Like `write`, for callers without an event loop: start-up and the command line."""
        reply: Future[T] = Future()
        self._backend.submit_write(work, reply)
        return reply.result()

    def read_now(self, work: Work[T]) -> T:
        """Like `read`, for callers without an event loop."""
        reply: Future[T] = Future()
        self._backend.submit_read(work, reply)
        return reply.result()

    def announce(self, connection: Connection, topic: str) -> None:
        """Tell the subscribers of a topic in this process, once the transaction is committed, that it has happened."""
        if self._subscribers.get(topic):
            call_after_commit(connection, lambda: self._tell(topic))

    @contextmanager
    def subscribed(self, topic: str, receive: Callable[[], None]) -> Iterator[None]:
        """Call `receive` after each commit that announces the topic, on a thread of the database, in this context."""
        subscribers = self._subscribers.setdefault(topic, [])
        subscribers.append(receive)
        try:
            yield
        finally:
            subscribers.remove(receive)

    def _tell(self, topic: str) -> None:
        for receive in tuple(self._subscribers.get(topic, ())):
            receive()

    def time(self, after: timedelta = timedelta()) -> ColumnElement[datetime]:
        """Return the SQL expression for a time `after` now, by the database's own clock.

        Hosts compare their times by it, because their clocks differ.
        """
        clock = self.clock
        if clock is None:
            return self._backend.time(after)
        return bindparam(None, callable_=lambda: clock.now() + after, type_=UtcDateTime)

    def shifted(self, at: ColumnElement[datetime], after: timedelta) -> ColumnElement[datetime]:
        """Return the SQL expression for a time `after` another one, in milliseconds."""
        return self._backend.shifted(at, after)

    async def skew(self, clock: Clock) -> float:
        """Return how many seconds `clock` is ahead of the database's own; the error is at most half the time of a statement."""
        wanted = select(self.time())

        def measure(connection: Connection) -> float:
            before = clock.now()
            now: datetime = connection.execute(wanted).scalar_one()
            return (before + (clock.now() - before) / 2 - now).total_seconds()

        return await self.read(measure)

    def close_now(self) -> None:
        """Finish the submitted work and release threads and connections. A second call has no effect."""
        self._backend.close()

    async def close(self) -> None:
        """Like `close_now`, without blocking the event loop."""
        await asyncio.to_thread(self._backend.close)


def _same(_connection: Connection, rows: Sequence[Any]) -> Any:
    return rows


async def read_pages(
    read: Run,
    query: Select[Any],
    *key: ColumnElement[Any],
    size: int = 1000,
    look: Callable[[Connection, Sequence[Any]], Any] = _same,
) -> AsyncIterator[Any]:
    """Yield the rows of `query` in pages, each read in its own short transaction.

    They are ordered by `key`, the columns that `query` selects first and that no two rows have in common. With `look`, yield
    what it returns for each page of rows, from the transaction that has read them.
    """
    wanted = following = query.order_by(*key).limit(size)

    def read_page(connection: Connection) -> tuple[Sequence[Any], Any]:
        rows = connection.execute(following).all()
        return rows, look(connection, rows) if rows else rows

    while True:
        rows, page = await read(read_page)
        if not rows:
            return
        yield page
        if len(rows) < size:
            return
        # Each value is bound with the type of its column: SQLite compares times as texts of one format.
        last = [literal(value, column.type) for column, value in zip(key, rows[-1], strict=False)]
        following = wanted.where(tuple_(*key) > tuple_(*last))


async def delete_pages(write: Run, key: Column[Any], *conditions: ColumnElement[bool]) -> int:
    """Delete the rows that meet all `conditions`, a few in each transaction, so that other writes never wait long.

    `key` is a unique column of their table. Return the number of rows.
    """

    def delete_page(connection: Connection) -> int:
        keys = list(connection.execute(select(key).where(*conditions).limit(DELETED_AT_ONCE)).scalars())
        return connection.execute(delete(key.table).where(key.in_(keys))).rowcount if keys else 0

    deleted = 0
    while page := await write(delete_page):
        deleted += page
    return deleted


def dialect_of(url: str) -> str:
    """Return `sqlite` or `postgresql`. Raises `ConfigurationError`, whose text never contains the URL."""
    return parse_url(url)[1].dialect


def parse_url(url: str) -> tuple[URL, type[PostgresqlBackend] | type[SqliteBackend]]:
    """Return the parsed URL and the class of its backend. Raises `ConfigurationError`."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not chained, because the parser's message may contain the password.
        raise ConfigurationError(
            "the database URL cannot be read; write sqlite:///path/to/file or postgresql://user@host/name"
        ) from None
    backend = _BACKENDS.get(parsed.drivername)
    if backend is None:
        raise ConfigurationError(f"the database '{parsed.drivername}' is not supported; use sqlite:/// or postgresql://")
    return parsed, backend

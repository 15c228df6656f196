"""The one port to a database, and the choice of what is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from graph_agent.db.lane import Lanes, Work
from graph_agent.db.postgresql import PostgresqlLanes
from graph_agent.db.sqlite import SqliteLanes
from graph_agent.errors import ConfigurationError

T = TypeVar("T")

_LANES: dict[str, Callable[[URL], Lanes]] = {
    "sqlite": SqliteLanes,
    "sqlite+pysqlite": SqliteLanes,
    "postgres": PostgresqlLanes,
    "postgresql": PostgresqlLanes,
    "postgresql+psycopg": PostgresqlLanes,
}


class Database:
    """Reads and writes on threads of their own, from any event loop or none.

    Work that was handed over runs to its commit or rollback whatever becomes of the caller. Raises `DatabaseUnavailableError`
    for a database that is locked, full or gone; what the work itself raises, `IntegrityError` among it, passes through after a
    rollback.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    @classmethod
    def open(cls, url: str) -> Database:
        """The database behind a SQLAlchemy URL: `sqlite:///path`, `sqlite://` (in memory) or `postgresql://user@host/name`.

        Connects on first use. Raises `ConfigurationError`, whose text never holds the URL.
        """
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):
            # Not chained: the parser's own text may quote the password.
            raise ConfigurationError(
                "the database URL cannot be read; write sqlite:///path/to/file or postgresql://user@host/name"
            ) from None
        lanes = _LANES.get(parsed.drivername)
        if lanes is None:
            raise ConfigurationError(f"the database '{parsed.drivername}' is not supported; use sqlite:/// or postgresql://")
        return cls(lanes(parsed))

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._lanes.dialect

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction of its own and return its result once that is committed."""
        return await asyncio.wrap_future(self._lanes.submit_write(work))

    async def read(self, work: Work[T]) -> T:
        """Run `work` on one consistent snapshot, beside the writers."""
        return await asyncio.wrap_future(self._lanes.submit_read(work))

    def write_now(self, work: Work[T]) -> T:
        """`write` for callers without an event loop: start-up and the command line."""
        return self._lanes.submit_write(work).result()

    def read_now(self, work: Work[T]) -> T:
        """`read` for callers without an event loop."""
        return self._lanes.submit_read(work).result()

    def close_now(self) -> None:
        """Finish what was handed over and release threads and connections. Closing twice is fine."""
        self._lanes.close()

    async def close(self) -> None:
        """`close_now`, without holding up the event loop."""
        await asyncio.to_thread(self._lanes.close)

"""Short messages between the processes of one PostgreSQL database: LISTEN and NOTIFY."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

from sqlalchemy import make_url, text

from graph_agent.db.backend import DatabaseUnavailableError
from graph_agent.db.database import Database, dialect_of

_log = logging.getLogger(__name__)

RECONNECT_SECONDS = 5.0
"""The wait before a lost connection is opened again."""
CONNECT_TIMEOUT_SECONDS = 5

_SEND = text("SELECT pg_notify(:channel, message) FROM unnest(CAST(:messages AS text[])) AS message")


class Notifications:
    """Sends messages to every process that listens on a channel of a database, this one included.

    A message may be lost, for instance while a connection is opened again, or behind a pooler in transaction mode, which does
    not pass notifications on. Therefore nothing may depend on one.
    """

    def __init__(self, database: Database, url: str, channel: str) -> None:
        """Messages are sent through `database`. `url` is for the one connection that listens, which must be direct."""
        self._database = database
        self._url = url
        self._channel = channel

    @asynccontextmanager
    async def listen(self, receive: Callable[[str], None]) -> AsyncGenerator[None]:
        """Call `receive` with each message in this context."""
        listening = asyncio.create_task(self._listen_forever(receive))
        try:
            yield
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    async def send(self, messages: Iterable[str]) -> None:
        """Send messages; log a failure."""
        # In a transaction without a change: PostgreSQL lets only one transaction with a notification commit at a time, and one
        # that also writes would make the others wait for the disk.
        row = {"channel": self._channel, "messages": list(messages)}
        try:
            await self._database.write(lambda connection: connection.execute(_SEND, row).close())
        except DatabaseUnavailableError:
            _log.info("notifications could not be sent")

    async def _listen_forever(self, receive: Callable[[str], None]) -> None:
        while True:
            try:
                await self._listen(receive)
            except Exception as exc:
                # Without the text, which may contain the address.
                _log.warning("the connection that listens for notifications is lost (%s)", type(exc).__name__)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self, receive: Callable[[str], None]) -> None:
        # Imported here, because it is an extra.
        import psycopg

        url = make_url(self._url)
        _, options = url.get_dialect()().create_connect_args(url)
        options = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, **options}
        async with await psycopg.AsyncConnection.connect(autocommit=True, **options) as connection:
            await connection.execute(f'LISTEN "{self._channel}"'.encode())
            async for notice in connection.notifies():
                receive(notice.payload)


def open_notifications(database: Database, url: str, channel: str) -> Notifications | None:
    """Return the notifications of a PostgreSQL database; None for SQLite, which has none."""
    return None if database.dialect == "sqlite" or dialect_of(url) == "sqlite" else Notifications(database, url, channel)

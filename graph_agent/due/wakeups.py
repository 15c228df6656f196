"""Wake-ups of workers: by the commits of their own process, and on PostgreSQL by those of the others.

Nothing depends on them: a worker looks every two seconds in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from graph_agent.db import Database
from graph_agent.db.notifications import Notifications
from graph_agent.due.table import DUE_NOW


@contextmanager
def set_when_due(database: Database, event: asyncio.Event) -> Iterator[None]:
    """Set `event`, in this context, after each commit of this process that makes work due at once."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        # Called by a thread of the database, whose loop may be closed by then.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(event.set)

    with database.subscribed(DUE_NOW, wake):
        yield


@asynccontextmanager
async def announced(database: Database, notifications: Notifications | None) -> AsyncGenerator[None]:
    """Notify the other processes, in this context, that this one has made work due at once.

    Commits that follow each other quickly are announced together. At the end what was made due before is announced, as by a
    command that only stores an answer.
    """
    if notifications is None:
        yield
        return
    changed = asyncio.Event()

    async def announce_forever() -> None:
        while True:
            await changed.wait()
            changed.clear()
            await notifications.send([DUE_NOW])

    with set_when_due(database, changed):
        announcing = asyncio.create_task(announce_forever())
        try:
            yield
        finally:
            # What is being sent is sent: a transaction ends although its caller is cancelled.
            announcing.cancel()
            await asyncio.wait({announcing})
            if changed.is_set():
                await notifications.send([DUE_NOW])

"""The test write to the database, by which a server finds that it can run turns."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from graph_agent.ports import Clock

WRITE_SECONDS = 1.0
"""The shortest time between two writes of the same check."""


class WriteCheck:
    """A test write to the database. It is made at most once in `WRITE_SECONDS`, however often the endpoint is called."""

    def __init__(self, write: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        # Requests that come together wait for one write, and all learn its result.
        self._writing = asyncio.Lock()
        self._written_at = -math.inf

    async def pass_or_raise(self) -> None:
        """Return if the last test write succeeded, or raise its exception. Writes again if the last success is too old."""
        async with self._writing:
            now = self._clock.monotonic()
            if now - self._written_at >= WRITE_SECONDS:
                await self._write()
                self._written_at = now

"""An event loop whose time passes only when a test advances its clock, so that deadlines do not depend on the machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.db.backend import Work

T = TypeVar("T")


def freeze_loop_time(clock: ManualClock) -> ManualClock:
    """Make `clock` the time of the running loop: its timers wait until the clock is advanced, however long the work takes."""
    asyncio.get_running_loop().time = clock.monotonic  # type: ignore[method-assign]  # there is no other way to set it
    return clock


class CountingDatabase(Database):
    """A database that knows how many requests are not answered yet."""

    pending = 0

    async def write(self, work: Work[T]) -> T:
        return await self._counted(super().write(work))

    async def read(self, work: Work[T]) -> T:
        return await self._counted(super().read(work))

    async def _counted(self, request: Awaitable[T]) -> T:
        self.pending += 1
        try:
            return await request
        finally:
            self.pending -= 1


async def pass_time(
    clock: ManualClock, work: Awaitable[T], step_seconds: float = 0.05, *, database: CountingDatabase | None = None
) -> T:
    """Return the result of `work`, whose waits take no real time: the frozen loop's time advances until it has ended.

    No time passes while `database` answers, so that it is never too slow.
    """
    freeze_loop_time(clock)
    task = asyncio.ensure_future(work)
    while not task.done():
        # The threads of a database get real time to answer.
        await asyncio.to_thread(time.sleep, 0.001)
        if database is None or not database.pending:
            clock.advance(seconds=step_seconds)
    return await task

"""An event loop whose time passes only when a test advances its clock, so that deadlines do not depend on the machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from graph_agent.clock import ManualClock

T = TypeVar("T")


def freeze_loop_time(clock: ManualClock) -> ManualClock:
    """Make `clock` the time of the running loop: its timers wait until the clock is advanced, however long the work takes."""
    asyncio.get_running_loop().time = clock.monotonic  # type: ignore[method-assign]  # there is no other way to set it
    return clock


async def pass_time(clock: ManualClock, work: Awaitable[T], step_seconds: float = 0.05) -> T:
    """Return the result of `work`, whose waits take no real time: the frozen loop's time advances until it has ended."""
    freeze_loop_time(clock)
    task = asyncio.ensure_future(work)
    while not task.done():
        # The threads of a database get real time to answer.
        await asyncio.to_thread(time.sleep, 0.001)
        clock.advance(seconds=step_seconds)
    return await task

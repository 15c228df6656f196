"""An event loop whose time passes only when a test advances its clock, so that deadlines do not depend on the machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from graph_agent.clock import ManualClock
from graph_agent.db import Database

T = TypeVar("T")

_LOOP_ROUNDS = 20
"""How often all tasks that can run do so before time passes, so that a slow machine gives them as much time as a fast one."""


def freeze_loop_time(clock: ManualClock) -> ManualClock:
    """Make `clock` the time of the running loop: its timers wait until the clock is advanced, however long the work takes."""
    asyncio.get_running_loop().time = clock.monotonic  # type: ignore[method-assign]  # there is no other way to set it
    return clock


async def pass_time(clock: ManualClock, work: Awaitable[T], step_seconds: float = 0.05) -> T:
    """Return the result of `work`, whose waits take no real time: the frozen loop's time advances until it has ended.

    No time passes while a database answers, so that none is ever too slow.
    """
    freeze_loop_time(clock)
    with _unanswered() as unanswered:
        task = asyncio.ensure_future(work)
        while not task.done():
            # Threads get real time to end what they do.
            await asyncio.to_thread(time.sleep, 0.001)
            for _ in range(_LOOP_ROUNDS):
                await asyncio.sleep(0)
            if not unanswered():
                clock.advance(seconds=step_seconds)
    return await task


@contextmanager
def _unanswered() -> Iterator[Callable[[], int]]:
    """Count the requests to all databases that are not answered yet."""
    count = 0

    def counted(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def ask(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            try:
                return await method(*arguments)
            finally:
                count -= 1

        return ask

    with pytest.MonkeyPatch.context() as patch:
        for method in (Database.read, Database.write):
            # The services of an installation open their databases themselves.
            patch.setattr(Database, method.__name__, counted(method))
        yield lambda: count

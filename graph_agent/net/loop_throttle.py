"""A throttle for the tasks of an event loop that build requests and parse responses."""

from __future__ import annotations

import asyncio


class LoopThrottle:
    """Lets one task pass in each iteration of the event loop.

    Building a request and parsing a response take milliseconds without an `await`. A hundred calls that start or end together
    would do that in one iteration of the loop, and everything else in the process would wait for all of them.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        """Return in an iteration of the event loop in which no other task has passed."""
        async with self._lock:
            await asyncio.sleep(0)

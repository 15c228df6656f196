"""One at a time through the parts of a call that keep the event loop busy."""

from __future__ import annotations

import asyncio


class Turnstile:
    """Lets one task through on each trip of the event loop.

    Building a request and reading an answer take milliseconds of work without a pause. A hundred calls that start or end
    together would do it in one trip, and everything else in the process would wait for all of them.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def enter(self) -> None:
        """Return on a trip of the loop that no other task was let into."""
        async with self._lock:
            await asyncio.sleep(0)

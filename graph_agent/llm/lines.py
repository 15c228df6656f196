"""One client for each event loop, closed with the loop.

An HTTP client belongs to the loop it was first used in; from a second one it fails. A program may well run several: a CLI that
calls `asyncio.run` twice, a server with threads, a test suite.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Opens a client in each event loop that asks for one, and closes it when that loop ends or `aclose` is called."""

    def __init__(self, opening: Callable[[], T], closing: Callable[[T], Awaitable[None]]) -> None:
        self._opening = opening
        self._closing = closing
        self._open: dict[asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None, None]]] = {}

    async def get(self) -> T:
        """The running loop's client."""
        loop = asyncio.get_running_loop()
        if loop in self._open:
            return self._open[loop][0]
        for other in [other for other in self._open if other.is_closed()]:
            self._open.pop(other, None)
        client = self._opening()
        guard = self._until_loop_ends(loop, client)
        self._open[loop] = client, guard
        await anext(guard)
        return client

    async def aclose(self) -> None:
        """Close every client, each in its own loop; a later `get` opens a new one. A closed loop took its client along."""
        here = asyncio.get_running_loop()
        for loop, (_, guard) in list(self._open.items()):
            if loop is here:
                await guard.aclose()
            elif loop.is_running():
                with suppress(RuntimeError):  # that loop may end at this moment, and then closes its client itself
                    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_close(guard), loop))
            self._open.pop(loop, None)

    async def _until_loop_ends(self, loop: asyncio.AbstractEventLoop, client: T) -> AsyncGenerator[None, None]:
        # A loop closes the async generators that were started in it before it closes itself: the one hook there is.
        try:
            yield
        finally:
            self._open.pop(loop, None)
            await self._closing(client)


async def _close(guard: AsyncGenerator[None, None]) -> None:
    await guard.aclose()

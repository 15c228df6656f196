"""One client per event loop, closed together with the loop.

An HTTP client belongs to the event loop in which it was first used; in another one it fails. One process may run several loops:
a CLI that calls `asyncio.run` twice, a server with threads, a test suite.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class LoopClients(Generic[T]):
    """Opens a client in each event loop that asks for one, and closes it when the loop ends or `aclose` is called."""

    def __init__(self, open_client: Callable[[], T], close_client: Callable[[T], Awaitable[None]]) -> None:
        self._open_client = open_client
        self._close_client = close_client
        self._clients: dict[asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None, None]]] = {}
        """Event loop -> its client, and the generator that closes the client."""

    async def get(self) -> T:
        """Return the client of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop in self._clients:
            return self._clients[loop][0]
        for other in [other for other in self._clients if other.is_closed()]:
            self._clients.pop(other, None)
        client = self._open_client()
        closer = self._close_with_loop(loop, client)
        self._clients[loop] = client, closer
        await anext(closer)
        return client

    async def aclose(self) -> None:
        """Close every client, each in its own event loop. A later `get` opens a new one."""
        current = asyncio.get_running_loop()
        for loop, (_, closer) in list(self._clients.items()):
            if loop is current:
                await closer.aclose()
            elif loop.is_running():
                with suppress(RuntimeError):  # the loop may be ending right now, and then closes its client itself
                    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_close(closer), loop))
            self._clients.pop(loop, None)

    async def _close_with_loop(self, loop: asyncio.AbstractEventLoop, client: T) -> AsyncGenerator[None, None]:
        # Before `asyncio.run` closes a loop, it closes the async generators that were started there. Nothing else
        # announces the end of a loop.
        try:
            yield
        finally:
            self._clients.pop(loop, None)
            await self._close_client(client)


async def _close(closer: AsyncGenerator[None, None]) -> None:
    await closer.aclose()

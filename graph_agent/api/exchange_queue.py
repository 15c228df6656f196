"""The order in which clients that are not signed in yet may cause requests to the issuer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv6Address, ip_address
from weakref import WeakValueDictionary

from fastapi import Request

from graph_agent.api.errors import busy

MAX_RUNNING = 8
MAX_RUNNING_OF_ADDRESS = 2
"""The others of an address wait for these, and take no place from other addresses meanwhile."""
QUEUE_SECONDS = 10.0


class ExchangeQueue:
    """Lets a few requests run at the same time, and only two of the same address; the others wait."""

    def __init__(self) -> None:
        self._running = asyncio.Semaphore(MAX_RUNNING)
        # Kept by the requests that run or wait, so that an address without one takes no memory.
        self._of_address: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, request: Request) -> AsyncGenerator[None]:
        """Wait for a place. Raises `ServiceError` SERVICE_UNAVAILABLE if that takes too long."""
        own = self._of_address.setdefault(_address(request), asyncio.Semaphore(MAX_RUNNING_OF_ADDRESS))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(QUEUE_SECONDS):
                    await held.enter_async_context(own)
                    await held.enter_async_context(self._running)
            except TimeoutError:
                raise busy() from None
            yield


def _address(request: Request) -> str:
    """Return the address of the client, or the network of an IPv6 address: one client has many addresses in it."""
    host = request.client.host if request.client else ""
    try:
        ip = ip_address(host)
    except ValueError:
        return host
    return str(int(ip) >> 64) if isinstance(ip, IPv6Address) and ip.ipv4_mapped is None else host

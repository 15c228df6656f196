"""A context that is entered and left by a task of its own, for callers that come and go."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

T = TypeVar("T")


class OpenedByTask(Generic[T]):
    """An open context. MCP sessions must be closed by the task that has opened them, and no caller outlives all others."""

    def __init__(self, context: AbstractAsyncContextManager[T]) -> None:
        self.users = 0
        """The callers that use the context now, as they count themselves."""
        self._opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._unused = asyncio.Event()
        self._owner = asyncio.create_task(self._keep_open(context))

    async def value(self) -> T:
        """Return what the context yields, or raise what it raises on entering."""
        # Shielded: the others still wait when one caller is cancelled.
        return await asyncio.shield(self._opened)

    @property
    def failed(self) -> bool:
        """True if the context could not be entered."""
        return self._opened.done() and self._opened.exception() is not None

    async def aclose(self) -> None:
        """Leave the context."""
        self._unused.set()
        # Shielded: the context is left completely, even if this caller is cancelled.
        await asyncio.shield(self._owner)

    async def _keep_open(self, context: AbstractAsyncContextManager[T]) -> None:
        try:
            async with context as value:
                self._opened.set_result(value)
                await self._unused.wait()
        except Exception as exc:
            if self._opened.done():
                raise
            self._opened.set_exception(exc)

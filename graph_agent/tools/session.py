"""One long-lived MCP session, held by a task of its own.

The SDK's transports are task groups: whoever enters one is cancelled when it breaks. So the session is entered and left in a
task that nobody else is in, and a caller's request runs in another one, whose cancellation is told from the caller's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from contextvars import Context
from typing import TypeVar

from mcp import Client, ClientSession
from mcp.types import Tool

from graph_agent.deadlines import left_behind
from graph_agent.tools.tool_list import ToolListError, all_tools
from graph_agent.tools.transport import Server, transport_to

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_NEWS = 5_000
"""Messages that nobody asked for, between two requests of ours; so many end the session."""
LEAVE_SECONDS = 10.0
"""How long leaving may take. The SDK asks a child process to end, tells it, then kills it, all in less."""


class Session:
    """A connection that is made at once, in the background, and used until it is `dead`. Belongs to the loop it was made in."""

    def __init__(self, server: Server, connect_seconds: float) -> None:
        self._server = server
        self._connect_seconds = connect_seconds
        self.loop = asyncio.get_running_loop()
        self.tools: list[Tool] = []
        self.dead = False
        self.news = 0
        """Messages that nobody asked for since the last request."""
        self._leaving = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = self.loop.create_future()
        # A context of its own: what is bound to the turn that happens to connect (its deadline, say) is not the session's.
        self._owner = self.loop.create_task(self._hold(), name="mcp-session", context=Context())

    async def ready(self, seconds: float) -> ClientSession | None:
        """The open session, or None if it could not be opened or not within `seconds`."""
        done, _ = await asyncio.wait({self._ready}, timeout=seconds)
        return self._ready.result() if done and self._ready.exception() is None else None

    async def leave(self) -> None:
        """Close the connection and wait for it, within reason."""
        self._leaving.set()
        done, _ = await asyncio.wait({self._owner}, timeout=LEAVE_SECONDS)
        if not done:
            self._owner.cancel()

    def abandon(self) -> None:
        """Close the connection without waiting, from any thread; a loop that is closed has closed it already."""
        self.dead = True
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._leaving.set)

    async def _hold(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                transport = transport_to(self._server, self._ended)
                async with asyncio.timeout(self._connect_seconds):
                    # No response cache: a tool list is asked for once, everything else must reach the server.
                    client = await stack.enter_async_context(Client(transport, cache=None, message_handler=self._heard))
                    self.tools = await all_tools(client.session)
                self._ready.set_result(client.session)
                await self._leaving.wait()
        except Exception as error:
            logger.warning("the connection to an MCP server failed (%s)", _reason(error))
            logger.debug("how it failed", exc_info=error)
        finally:
            self.dead = True
            if not self._ready.done():
                self._ready.set_exception(ConnectionError("not connected"))
                # Nobody may be waiting for it any more.
                self._ready.exception()

    async def _heard(self, message: object) -> None:  # noqa: ARG002 (the SDK gives it)
        """Notifications and lines that are no messages: nothing is done about them, and a flood ends the session."""
        self.news += 1
        if self.news == MAX_NEWS:
            logger.warning("an MCP server sends more than anybody asked for; its connection is closed")
            self._ended()

    def _ended(self) -> None:
        """The server hung up: no call is sent into this session any more."""
        self.dead = True
        self._leaving.set()


async def attempt(work: Awaitable[T], seconds: float) -> T | BaseException | None:
    """The result of `work`, the exception it ended with, or None after `seconds`, whatever `work` does.

    Its own CancelledError is returned like any other exception; only the caller's is raised. Work that is given up is
    cancelled, not waited for.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(left_behind)
    if not task.done():
        return None
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()


def _reason(error: BaseException) -> str:
    """What may be said of a failure: our own words, or its type."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(_reason(part) for part in error.exceptions)
    return str(error) if isinstance(error, ToolListError) else type(error).__name__

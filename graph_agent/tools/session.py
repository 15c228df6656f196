"""One long-lived MCP session, held by a task of its own.

The SDK's transports are task groups: whoever enters one is cancelled when it breaks. So the session is entered and left in a
task that nobody else is in, and a caller's request runs in another one, whose cancellation is told from the caller's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, TypeVar

from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.types import PaginatedRequestParams, Tool

from graph_agent.ports import left_behind

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_PAGES = 100
"""Pages of a tool list that are read; a list that never ends does not hang the start."""
LEAVE_SECONDS = 10.0
"""How long leaving may take: a child process is asked, then told, then killed."""


class Session:
    """A connection that is made at once, in the background, and used until it is `dead`. Belongs to the loop it was made in."""

    def __init__(self, server: MCPServer[Any] | StdioServerParameters | str, connect_seconds: float) -> None:
        self._server = server
        self._connect_seconds = connect_seconds
        self.loop = asyncio.get_running_loop()
        self.tools: list[Tool] = []
        self.dead = False
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
                async with asyncio.timeout(self._connect_seconds):
                    # No response cache: a tool list is asked for once, everything else must reach the server.
                    client = await stack.enter_async_context(Client(self._transport(), cache=None))
                    self.tools = await _all_tools(client.session)
                self._ready.set_result(client.session)
                await self._leaving.wait()
        except Exception as error:
            logger.warning("the connection to an MCP server failed (%s)", type(error).__name__)
            logger.debug("how it failed", exc_info=error)
        finally:
            self.dead = True
            if not self._ready.done():
                self._ready.set_exception(ConnectionError("not connected"))
                # Nobody may be waiting for it any more.
                self._ready.exception()

    def _transport(self) -> Any:
        if isinstance(self._server, StdioServerParameters):
            return _watched(stdio_client(self._server), self._ended)
        if isinstance(self._server, str):
            return _watched(streamable_http_client(self._server), self._ended)
        return self._server

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


async def _all_tools(session: ClientSession) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


@asynccontextmanager
async def _watched(transport: Any, ended: Callable[[], None]) -> AsyncIterator[Any]:
    """`transport` with an ear on its end: an SDK session does not tell that its server is gone."""
    async with transport as (read, write):
        yield _Watched(read, ended), write


class _Watched:
    """A read stream that reports its end."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> Any:
        return await self._stream.__aexit__(*details)

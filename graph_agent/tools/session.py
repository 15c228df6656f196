"""One long-lived MCP session, held by a task of its own.

The SDK's transports are task groups: whoever enters one is cancelled when it breaks. So the session is entered and left in a
task that nobody else is in, and a caller's request runs in another one, whose cancellation is told from the caller's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, TypeVar

import httpx2
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.types import PaginatedRequestParams, Tool

from graph_agent.ports import left_behind
from graph_agent.tools import relay

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Of one message of a server; a longer one ends the connection."""
MAX_PAGES = 100
"""Pages of a tool list that are read; one that never ends does not hang the start."""
MAX_NEWS = 5_000
"""Messages that nobody asked for, between two requests of ours; each costs about a millisecond."""
MAX_TOOLS = 2_000
MAX_LIST_BYTES = 16 * 1024 * 1024
LEAVE_SECONDS = 10.0
"""How long leaving may take: a child process is asked, then told, then killed."""


class ToolListError(Exception):
    """A list of tools that nobody can rely on; its message is ours."""


class Session:
    """A connection that is made at once, in the background, and used until it is `dead`. Belongs to the loop it was made in."""

    def __init__(self, server: MCPServer[Any] | StdioServerParameters | str, connect_seconds: float) -> None:
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
                async with asyncio.timeout(self._connect_seconds):
                    # No response cache: a tool list is asked for once, everything else must reach the server.
                    client = await stack.enter_async_context(Client(self._transport(), cache=None, message_handler=self._heard))
                    self.tools = await _all_tools(client.session)
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

    def _transport(self) -> Any:
        if isinstance(self._server, StdioServerParameters):
            return _watched(stdio_client(_with_bounded_lines(self._server)), self._ended)
        if isinstance(self._server, str):
            return _watched(_over_http(self._server), self._ended)
        return self._server

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


async def _all_tools(session: ClientSession) -> list[Tool]:
    """Every tool, each name once. Raises `ToolListError` for a list without end or measure, or with one name for two tools."""
    tools: dict[str, Tool] = {}
    size, cursor = 0, None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        if len(tools) + len(page.tools) > MAX_TOOLS:
            raise ToolListError("its list of tools is too long")
        size += sum(len(tool.model_dump_json()) for tool in page.tools)
        if size > MAX_LIST_BYTES:
            raise ToolListError("its list of tools is too large")
        for tool in page.tools:
            if tool.name in tools:
                raise ToolListError("it serves two tools of one name")
            tools[tool.name] = tool
        cursor = page.next_cursor
        if cursor is None:
            return list(tools.values())
    raise ToolListError("its list of tools does not end")


def _reason(error: BaseException) -> str:
    """What may be said of a failure: our own words, or its type."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(_reason(part) for part in error.exceptions)
    return str(error) if isinstance(error, ToolListError) else type(error).__name__


def _with_bounded_lines(server: StdioServerParameters) -> StdioServerParameters:
    """`server` behind the relay, and a line that is no text is a line that is no message, not the end of the connection."""
    readable = server.model_copy(update={"encoding_error_handler": "replace"})
    if os.name != "posix":
        # Without process groups the relay could outlive the SDK's kill.
        return readable
    through = ["-IS", relay.__file__, str(MAX_MESSAGE_BYTES), server.command, *server.args]
    return readable.model_copy(update={"command": sys.executable, "args": through})


@asynccontextmanager
async def _over_http(url: str) -> AsyncIterator[Any]:
    async with (
        measuring_client() as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


def measuring_client(transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """An HTTP client that reads no body of more than `MAX_MESSAGE_BYTES`; events are measured by the SDK, one by one."""
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity"},
        # A stream of events may be silent for long; every call has a deadline of its own.
        timeout=httpx2.Timeout(30, read=300),
        event_hooks={"response": [_measured]},
        transport=transport,
    )


async def _measured(response: httpx2.Response) -> None:
    """Let the body end where it grows too large; a packed one hides how large it will be."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise httpx2.DecodingError("a packed answer was not asked for", request=response.request)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    if "text/event-stream" not in response.headers.get("Content-Type", ""):
        response.stream = _Measured(response.stream)


class _Measured(httpx2.AsyncByteStream):
    """A body that ends with an error where it grows too large."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError("the answer is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


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

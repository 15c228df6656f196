"""How an MCP server is reached: over the pipes of a command, over HTTP, or in this process.

A remote server is a stranger, so what it sends is measured. A command is run by whoever configured it, and is not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx2
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer

Server: TypeAlias = MCPServer[Any] | StdioServerParameters | str
"""A server in this process, a command to start, or a URL."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Of one body or one event over HTTP; a longer one is not read to its end."""


def transport_to(server: Server, ended: Callable[[], None]) -> Any:
    """What the SDK's client connects over; `ended` is called when the server hangs up, which one in this process never does."""
    if isinstance(server, StdioServerParameters):
        # A line that is no text is a line that is no message, not the end of the connection.
        readable = server.model_copy(update={"encoding_error_handler": "replace"})
        return _watched(stdio_client(readable), ended)
    if isinstance(server, str):
        return _watched(_over_http(server), ended)
    return server


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

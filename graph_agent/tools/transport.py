"""The transports to an MCP server: the pipes of a command, HTTP, or memory for a server in this process.

The size of a message is limited, so that no server can fill the memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx2
from anyio.abc import ObjectReceiveStream
from mcp import ClientSession, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse, PaginatedRequestParams, Tool
from pydantic import ValidationError

from graph_agent.net.addresses import RefusedAddressError, is_loopback, require_allowed_host, require_protected
from graph_agent.reply.text import one_line
from graph_agent.tools.stdio import stdio_transport, weight

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HttpServer:
    """A server over streamable HTTP. Its headers and the URL may contain secrets.

    The headers are read again for every request, because a token among them may have been renewed.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_http: bool = False
    """The URL, and those to which its sign-in leads, may be plain `http:` although they lead to another machine."""


Server: TypeAlias = MCPServer[Any] | StdioServerParameters | HttpServer | str
"""A server in this process, a command to start, or a URL."""

MAX_PAGES = 100
MAX_TOOLS = 2_000
MAX_NAME = 200
"""Limit for a tool's name in characters. A constitution grants shorter ones only."""
MAX_LIST_BYTES = 16 * 1024 * 1024
"""Limit for all tools together, as JSON."""
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Limit for one body or one event over HTTP; reading stops there."""


def transport_to(
    server: Server, on_closed: Callable[[], None], on_stderr: Callable[[bytes], None], on_received: Callable[[], None]
) -> Any:
    """Return the transport for the SDK's client. `on_closed` is called when a server outside this process disconnects.

    `on_stderr` gets the end of a command's stderr each time it grows; `on_received` is called for each message that arrives.
    """
    if isinstance(server, MCPServer):
        return server
    if isinstance(server, str):
        server = HttpServer(server)
    transport = _over_http(server) if isinstance(server, HttpServer) else stdio_transport(server, on_stderr)
    return _observed(transport, on_closed, on_received)


@asynccontextmanager
async def _over_http(server: HttpServer) -> AsyncIterator[Any]:
    await asyncio.to_thread(require_allowed_host, server.url)
    async with size_limited_client(server) as client:
        client.event_hooks = {**client.event_hooks, "response": [_limit_body, _require_credentials]}
        async with streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams:
            yield streams


class SignInRequiredError(ConnectionError):
    """The server refuses to answer without credentials, or with those that it got."""


async def _require_credentials(response: httpx2.Response) -> None:
    """Raise `SignInRequiredError` for status 401, which the SDK reports as an internal error."""
    if response.status_code == 401:
        raise SignInRequiredError("the server asks for credentials")


def size_limited_client(server: HttpServer, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """Return an HTTP client that reads at most `MAX_MESSAGE_BYTES` of a body, or of each event of a stream."""

    # Imported here, because it delays the start, and only a server over HTTP needs it.
    from graph_agent.net.connections import checked_transport

    own = httpx2.URL(server.url)

    async def add_headers(request: httpx2.Request) -> None:
        require_protected(str(request.url), allow_http=server.allow_http)
        if is_loopback(request.url.host) and not is_loopback(own.host):
            raise RefusedAddressError("a server on another machine leads to an address of this machine")
        # A sign-in leads to other servers, which must not see these headers.
        if (request.url.scheme, request.url.netloc) == (own.scheme, own.netloc):
            request.headers.update(server.headers)

    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity"},
        # An event stream can be idle for a long time; every call has its own deadline.
        timeout=httpx2.Timeout(30, read=300),
        event_hooks={"request": [add_headers], "response": [_limit_body]},
        transport=transport or checked_transport(),
    )


async def _limit_body(response: httpx2.Response) -> None:
    """Limit the size of the body. A compressed body is refused, because it hides its real size."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise httpx2.DecodingError("a compressed answer was not requested", request=response.request)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _LimitedStream(response.stream, events="text/event-stream" in response.headers.get("Content-Type", ""))


class _LimitedStream(httpx2.AsyncByteStream):
    """A body that raises an error when it, or one of its `events`, exceeds `MAX_MESSAGE_BYTES` by its `weight`."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, events: bool) -> None:
        self._stream = stream
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        used, end = 0, b""
        async for chunk in self._stream:
            # An empty line ends an event, also one that is divided between chunks.
            joined = end + chunk
            ended = max(map(joined.rfind, (b"\n\n", b"\n\r\n", b"\r\r"))) if self._events else -1
            used = used + weight(chunk) if ended < 0 else weight(joined[ended:])
            if used > MAX_MESSAGE_BYTES:
                raise httpx2.ReadError("the answer is too large")
            end = joined[-2:]
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def _observed(transport: Any, on_closed: Callable[[], None], on_received: Callable[[], None]) -> AsyncIterator[Any]:
    """Wrap `transport` so that its end and its messages are reported, which an SDK session does not do."""
    async with transport as (read, write):
        yield _ObservedStream(read, on_closed, on_received), write


class _ObservedStream(ObjectReceiveStream[Any]):
    """A read stream that calls `on_received` for each message and `on_closed` at its end, and leaves invalid tools out."""

    def __init__(self, stream: Any, on_closed: Callable[[], None], on_received: Callable[[], None]) -> None:
        self._stream = stream
        self._on_closed = on_closed
        self._on_received = on_received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        try:
            message = await self._stream.receive()
        except BaseException:
            self._on_closed()
            raise
        self._on_received()
        drop_invalid_tools(message)
        return message

    async def aclose(self) -> None:
        await self._stream.aclose()


class ToolListError(Exception):
    """The server's tool list cannot be used. The message contains no text of the server."""


async def all_tools(session: ClientSession) -> list[Tool]:
    """Return every tool. Raises `ToolListError` for a list that exceeds the limits or has two tools with the same name."""
    tools: dict[str, Tool] = {}
    size, cursor = 0, None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        if len(tools) + len(page.tools) > MAX_TOOLS:
            raise ToolListError("its list of tools is too long")
        size += sum(len(tool.model_dump_json().encode()) for tool in page.tools)
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


def drop_invalid_tools(message: object) -> None:
    """Leave the tools with an invalid definition out of a list, for which the session would refuse the whole list."""
    if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCResponse):
        result = message.message.result
        if isinstance(tools := result.get("tools"), list):
            result["tools"] = [tool for tool in tools if _is_valid(tool)]


def _is_valid(listed: object) -> bool:
    name = listed.get("name") if isinstance(listed, dict) else None
    try:
        Tool.model_validate(listed, by_name=False)
    except ValidationError:
        problem = "whose definition is not valid"
    else:
        # A name of several lines could write one of its own into what the commands print.
        if one_line(str(name), MAX_NAME) == name:
            return True
        problem = "whose name is no line of plain text"
    logger.warning("an MCP server lists the tool %.100r, %s: it is left out", name, problem)
    return False

"""The transports to an MCP server: the pipes of a command, HTTP, or memory for a server in this process.

The size of a message is limited, so that no server can fill the memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

import httpx2
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError

from graph_agent.models.tools import Transport
from graph_agent.net.addresses import RefusedAddressError, is_loopback, require_allowed_host, require_protected
from graph_agent.tools.json_text import WellFormedText
from graph_agent.tools.listed_tools import UnusableToolError, usable_tool
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

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Limit for one body or one event over HTTP; reading stops there."""


@dataclass(frozen=True)
class Observer:
    """The callbacks for what the SDK's session does not report. They return at once."""

    is_open: Callable[[], bool]
    """Returns True after the connection was opened, until it is lost or closed."""
    on_closed: Callable[[], None]
    """The server has closed the connection. Not called for a server in this process."""
    on_session_ended: Callable[[], None]
    """The server over HTTP does not know the session any more, or does not answer a request; others may still be answered."""
    on_received: Callable[[], None]
    """A message has arrived."""
    on_stderr: Callable[[bytes], None]
    """The stderr of a command has grown. The argument is its end."""
    on_left_out: Callable[[str, str], None]
    """A tool of the list, by its name, cannot be used, and why."""


def transport_to(server: Server, observer: Observer) -> Any:
    """Return the transport for the SDK's client."""
    if isinstance(server, MCPServer):
        return server
    if isinstance(server, str):
        server = HttpServer(server)
    if isinstance(server, HttpServer):
        return _observed(_over_http(server, observer), observer, over_http=True)
    return _observed(stdio_transport(server, observer.on_stderr), observer, over_http=False)


def transport_of(server: Server) -> Transport:
    """Return the way to a server."""
    if isinstance(server, MCPServer):
        return Transport.MEMORY
    return Transport.STDIO if isinstance(server, StdioServerParameters) else Transport.HTTP


HEADERS_META: Final = "graph_agent/headers"
"""In a request's `_meta`, only inside this process: further HTTP headers of its message."""

_OWN_HEADERS: Final = "x-graph-agent-headers"
"""A header with the names of those of one message, only inside this process: no configured header replaces them."""


class _HeaderStream(ObjectSendStream[Any]):
    """A write stream that sends what a message has under `HEADERS_META` as headers of its HTTP request."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, item: Any) -> None:
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCRequest) and HEADERS_META in (meta := (message.params or {}).get("_meta") or {}):
            others = {name: value for name, value in meta.items() if name != HEADERS_META}
            message = message.model_copy(update={"params": {**(message.params or {}), "_meta": others}})
            metadata = item.metadata if isinstance(item.metadata, ClientMessageMetadata) else ClientMessageMetadata()
            headers = {**(metadata.headers or {}), **meta[HEADERS_META], _OWN_HEADERS: ",".join(meta[HEADERS_META])}
            item = SessionMessage(message, replace(metadata, headers=headers))
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def _over_http(server: HttpServer, observer: Observer) -> AsyncIterator[Any]:
    await asyncio.to_thread(require_allowed_host, server.url)

    async def require_session(response: httpx2.Response) -> None:
        if response.status_code == 401 and not observer.is_open():
            raise SignInRequiredError("the server asks for credentials")
        unknown = response.status_code == 404 and "mcp-session-id" in response.request.headers
        if response.request.method == "POST" and (unknown or response.status_code == 401):
            observer.on_session_ended()

    async with size_limited_client(server, client=partial(_EachForItself, observer)) as client:
        client.event_hooks = {**client.event_hooks, "response": [_limit_body, require_session]}
        async with streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams:
            yield streams[0], _HeaderStream(streams[1])


class _EachForItself(httpx2.AsyncClient):
    """Gives a request that gets no answer an error of HTTP. The SDK would end the session, and with it the calls of others."""

    def __init__(self, observer: Observer, **settings: Any) -> None:
        self._observer = observer
        super().__init__(**settings)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            return await super().send(request, **options)
        except httpx2.RequestError:
            if not self._observer.is_open():
                raise
            self._observer.on_session_ended()
            return httpx2.Response(502, request=request)


class SignInRequiredError(ConnectionError):
    """The server refuses to answer without credentials, or with those that it got."""


def size_limited_client(
    server: HttpServer,
    transport: httpx2.AsyncBaseTransport | None = None,
    client: Callable[..., httpx2.AsyncClient] = httpx2.AsyncClient,
) -> httpx2.AsyncClient:
    """Return an HTTP client that reads at most `MAX_MESSAGE_BYTES` of a body, or of each event of a stream."""

    # Imported here, because it delays the start, and only a server over HTTP needs it.
    from graph_agent.net.connections import checked_transport

    own = httpx2.URL(server.url)

    async def add_headers(request: httpx2.Request) -> None:
        require_protected(str(request.url), allow_http=server.allow_http)
        if is_loopback(request.url.host) and not is_loopback(own.host):
            raise RefusedAddressError("a server on another machine leads to an address of this machine")
        own_of_message = request.headers.pop(_OWN_HEADERS, "").lower().split(",")
        # A sign-in leads to other servers, which must not see these headers.
        if (request.url.scheme, request.url.netloc) == (own.scheme, own.netloc):
            configured = {name: value for name, value in server.headers.items() if name.lower() not in own_of_message}
            request.headers.update(configured)

    return client(
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


class BrokenAnswerError(httpx2.ReadError, httpx2.StreamError):
    """The body of an answer ends too early or is too large. It is of both kinds, because the SDK ends the session at others."""


class _LimitedStream(httpx2.AsyncByteStream):
    """A body of text that raises an error when it, or one of its `events`, exceeds `MAX_MESSAGE_BYTES` by its `weight`."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, events: bool) -> None:
        self._stream = stream
        self._events = events
        self._text = WellFormedText()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        used, end = 0, b""
        async for chunk in self._read():
            # An empty line ends an event, also one that is divided between chunks.
            joined = end + chunk
            ended = max(map(joined.rfind, (b"\n\n", b"\n\r\n", b"\r\r"))) if self._events else -1
            used = used + weight(chunk) if ended < 0 else weight(joined[ended:])
            if used > MAX_MESSAGE_BYTES:
                raise BrokenAnswerError("the answer is too large")
            end = joined[-2:]
            yield self._text.feed(chunk)
        yield self._text.feed(b"", last=True)

    async def _read(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
        except httpx2.TransportError as exc:
            raise BrokenAnswerError("the answer has no end") from exc

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def _observed(transport: Any, observer: Observer, *, over_http: bool) -> AsyncIterator[Any]:
    """Wrap `transport` so that its end and its messages are reported, which an SDK session does not do."""
    calls: set[str] = set()
    async with transport as (read, write):
        yield _ObservedStream(read, observer, calls, over_http=over_http), _CallStream(write, calls)


class _CallStream(ObjectSendStream[Any]):
    """A write stream that notes the ids of the calls, because only their results are mended."""

    def __init__(self, stream: Any, calls: set[str]) -> None:
        self._stream = stream
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, item: Any) -> None:
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCRequest) and message.method == "tools/call":
            self._calls.add(str(message.id))
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _ObservedStream(ObjectReceiveStream[Any]):
    """A read stream that reports each message and its end, and leaves unusable tools out of a list."""

    def __init__(self, stream: Any, observer: Observer, calls: set[str], *, over_http: bool) -> None:
        """`calls` are the ids of the calls that are not answered yet."""
        self._stream = stream
        self._observer = observer
        self._calls = calls
        self._over_http = over_http

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        try:
            message = await self._stream.receive()
        except BaseException:
            self._observer.on_closed()
            raise
        self._observer.on_received()
        message = answered(message) if isinstance(message, ValidationError) else message
        content = message.message if isinstance(message, SessionMessage) else None
        if isinstance(content, JSONRPCResponse | JSONRPCError) and str(content.id) in self._calls:
            self._calls.remove(str(content.id))
            if isinstance(content, JSONRPCResponse):
                add_content(content.result)
        if isinstance(content, JSONRPCResponse):
            leave_out_unusable_tools(content.result, self._observer)
        if isinstance(content, JSONRPCError) and self._over_http and _is_of_sdk(content.error):
            content.error.data = NO_ANSWER
        return message

    async def aclose(self) -> None:
        await self._stream.aclose()


def answered(error: ValidationError) -> SessionMessage | ValidationError:
    """Return a response whose `result` is no object, so that its request ends at once; null is a result without anything."""
    found = error.errors(include_url=False)[0]["input"]
    if not isinstance(found, dict) or "result" not in found or not isinstance(found.get("id"), int | str):
        return error
    result = found["result"]
    if isinstance(result, dict):
        return error
    # No content is such a value, so that the answer cannot be used.
    unusable = {} if result is None else {"content": result}
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=found["id"], result=unusable))


def add_content(result: dict[str, Any]) -> None:
    """Set a missing or null `content` in the result of a call to an empty list: servers leave it out."""
    if result.get("content") is None and not _OF_OTHER_RESULTS & result.keys():
        result["content"] = []


_OF_OTHER_RESULTS: Final = frozenset({"inputRequests", "requestState", "task"})
"""The keys of what a server may answer in place of the result of a call."""
NO_ANSWER: Final = object()
"""The `data` of an error that the SDK made instead of an answer, which no server can send."""

_ERRORS_OF_SDK: Final = {
    CONNECTION_CLOSED: ("SSE stream ",),
    INTERNAL_ERROR: ("Server returned an error response",),
    INVALID_REQUEST: ("Session terminated", "server answered a request with 202", "Redirect to ", "Unexpected content type: "),
    METHOD_NOT_FOUND: ("Not Found",),
    PARSE_ERROR: ("Failed to parse ",),
}
"""The errors that the SDK's HTTP client makes for a request without a usable answer: code -> the beginnings of the texts."""


def _is_of_sdk(error: ErrorData) -> bool:
    return error.message.startswith(_ERRORS_OF_SDK.get(error.code, ())) and error.data is None


def leave_out_unusable_tools(result: dict[str, Any], observer: Observer) -> None:
    """Mend the tools in the result of a request, and leave those out that the session would refuse the whole list for."""
    if not isinstance(listed := result.get("tools"), list):
        return
    result["tools"] = tools = []
    for one in listed:
        name = one.get("name") if isinstance(one, dict) else None
        try:
            tool, unchecked = usable_tool(one)
        except UnusableToolError as exc:
            logger.warning("an MCP server lists the tool %.100r, whose %s: it is left out%s", name, *exc.in_words)
            observer.on_left_out(str(name), str(exc))
            continue
        if unchecked is not None:
            logger.warning("the results of the tool %.100r of an MCP server are not checked: %s", name, unchecked)
        tools.append(tool)

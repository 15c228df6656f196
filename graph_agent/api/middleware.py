"""Middleware for every route: security headers, and checks of the Host, Origin and length headers."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graph_agent.api.errors import envelope, service_error_response
from graph_agent.errors import ServiceError, ServiceErrorCode

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})
"""`none` is a request that the user makes, not a page."""

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)


class SecurityHeaders:
    """Adds headers that forbid sniffing, caching, framing and scripts; a header that a route has set is kept."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, add_headers)


class LoopbackHostsOnly:
    """Refuses requests whose Host header is not a loopback name.

    Without authentication every client that reaches the port is the user. This prevents DNS rebinding: a web page may let its
    own domain resolve to 127.0.0.1, but the browser then sends that domain as Host.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _LOOPBACK.fullmatch(Headers(scope=scope).get("host", "")):
            await self._app(scope, receive, send)
            return
        text = "Without authentication this server answers to localhost only."
        response = service_error_response(ServiceError(ServiceErrorCode.ACCESS_DENIED, text))
        await response(scope, receive, send)


class UnambiguousLength:
    """Refuses a request with both Content-Length and Transfer-Encoding, and closes its connection.

    A proxy that reads the other header than this server does would take the rest of the body for the next request (request
    smuggling).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        if "content-length" not in headers or "transfer-encoding" not in headers:
            await self._app(scope, receive, send)
            return
        text = "A request has either Content-Length or Transfer-Encoding."
        response = envelope(400, "BAD_REQUEST", text, {"Connection": "close"})
        await response(scope, receive, send)


class SameOriginOnly:
    """Refuses requests that change something if a browser sends them for another origin.

    Browsers add Origin and Sec-Fetch-Site to such requests and let no script change them; other clients send neither header.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _SAFE_METHODS or _same_origin(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        text = "This request comes from another origin."
        response = service_error_response(ServiceError(ServiceErrorCode.ACCESS_DENIED, text))
        await response(scope, receive, send)


def _same_origin(headers: Headers) -> bool:
    if headers.get("sec-fetch-site", "same-origin") not in _OWN_SITES:
        return False
    origin = headers.get("origin")
    # Hosts are compared without the scheme, because TLS may end at a proxy.
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()

"""Middleware for every route: security headers, and checks of the Host, Origin and length headers."""

from __future__ import annotations

import re
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
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
"""Values of Sec-Fetch-Site. A browser sends `none` if the user made the request, for example by typing the URL."""

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


class Gate:
    """Answers the requests that `refuse` returns a response for; the application gets all others."""

    def __init__(self, app: ASGIApp, refuse: Callable[[Request], Response | None]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refuse(Request(scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)


def refuse_other_hosts(request: Request) -> Response | None:
    """Refuse a request whose Host header is not a loopback name.

    This prevents DNS rebinding on a server without sign-in: a web page may let its own domain resolve to 127.0.0.1, but the
    browser then sends that domain as Host.
    """
    if _LOOPBACK.fullmatch(request.headers.get("host", "")):
        return None
    return _denied("Without authentication this server answers to localhost only.")


def refuse_two_lengths(request: Request) -> Response | None:
    """Refuse a request with both Content-Length and Transfer-Encoding, and close its connection.

    A proxy that reads the other header than this server does would take the rest of the body for the next request (request
    smuggling).
    """
    if "content-length" not in request.headers or "transfer-encoding" not in request.headers:
        return None
    return envelope(400, "BAD_REQUEST", "A request has either Content-Length or Transfer-Encoding.", {"Connection": "close"})


def refuse_other_origins(request: Request) -> Response | None:
    """Refuse a request that changes something if a browser sends it for another origin.

    Browsers add Origin and Sec-Fetch-Site to such requests and let no script change them; other clients send neither header.
    """
    if request.method in _SAFE_METHODS or _same_origin(request.headers):
        return None
    return _denied("This request comes from another origin.")


def _denied(text: str) -> Response:
    return service_error_response(ServiceError(ServiceErrorCode.ACCESS_DENIED, text))


def _same_origin(headers: Headers) -> bool:
    if headers.get("sec-fetch-site", "same-origin") not in _OWN_SITES:
        return False
    origin = headers.get("origin")
    # Hosts are compared without the scheme, because TLS may end at a proxy.
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()

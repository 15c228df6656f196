"""Middleware for every route: access log, security headers, unexpected errors, and checks of Host, Origin and lengths."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graph_agent.api.errors import UNEXPECTED, envelope, service_error_response
from graph_agent.errors import ServiceError, ServiceErrorCode, service_unavailable

_log = logging.getLogger(__name__)

ACCESS_LOGGER = "graph_agent.access"
_access_log = logging.getLogger(ACCESS_LOGGER)

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}

COMPRESSED_BYTES = 2048
"""A response of at least this size is compressed for clients that accept it; a smaller one fits into two packets."""

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site. A browser sends `none` if the user made the request, for example by typing the URL."""

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)


class HttpMiddleware:
    """Middleware that handles the requests; the events of the server's lifespan pass it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return (self.handle if scope["type"] == "http" else self.app)(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


def log_access(client: str, method: str, path: str, status: int, seconds: float) -> None:
    """Log one answered request; `status` is 0 if the client left before the answer."""
    ms = round(seconds * 1000, 1)
    fields = {"client": client, "method": method, "path": path, "status": status, "ms": ms}
    # Quoted, because a client chooses both: a space in them would begin another field of the line.
    _access_log.info("%s %s %s %d %.1f ms", quote(client, ":[]"), method, quote(path), status, ms, extra={"fields": fields})


class AccessLog(HttpMiddleware):
    """Middleware that logs each request after its last byte was sent."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _access_log.isEnabledFor(logging.INFO):
            await self.app(scope, receive, send)
            return
        status, started = 0, time.monotonic()

        async def send_and_remember_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_remember_status)
        finally:
            client = scope["client"][0] if scope["client"] else "-"
            log_access(client, scope["method"], scope["path"], status, time.monotonic() - started)


class SecurityHeaders(HttpMiddleware):
    """Adds headers that forbid sniffing, caching, framing and scripts; a header that a route has set is kept."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, add_headers)


class UnexpectedErrors(HttpMiddleware):
    """Middleware that logs an unexpected exception with its traceback and answers with a 500 without details.

    A request that is cancelled, because the server ends, is answered with a 503.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_and_remember_start(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, send_and_remember_start)
        except ClientDisconnect:
            return  # The client disconnected while sending its body.
        except asyncio.CancelledError:
            if started:
                raise
            # The server ends before there is an answer.
            await service_error_response(service_unavailable())(scope, receive, send)
        except Exception:
            _log.exception("a request ended in an exception")
            if started:
                raise
            await envelope(500, *UNEXPECTED)(scope, receive, send)


Refuse = Callable[[Request], Response | None]
"""Returns the response to a request that is refused; None for the others."""


class Gate(HttpMiddleware):
    """Answers the requests that `refuse` returns a response for; the application gets all others."""

    def __init__(self, app: ASGIApp, refuse: Refuse) -> None:
        super().__init__(app)
        self._refuse = refuse

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._refuse(Request(scope)) or self.app)(scope, receive, send)


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


def layers_before(refusals: Iterable[Refuse]) -> list[Middleware]:
    """Return the middleware of every application, from the outermost, with the `refusals` as the innermost ones."""
    return [
        Middleware(AccessLog),
        Middleware(SecurityHeaders),
        # Events are sent as they are: a compressed stream would reach its reader late.
        Middleware(GZipMiddleware, minimum_size=COMPRESSED_BYTES, compresslevel=5),
        Middleware(Gate, refuse_two_lengths),
        Middleware(UnexpectedErrors),
        *(Middleware(Gate, refuse) for refuse in refusals),
    ]


def _denied(text: str) -> Response:
    return service_error_response(ServiceError(ServiceErrorCode.ACCESS_DENIED, text))


def _same_origin(headers: Headers) -> bool:
    if headers.get("sec-fetch-site", "same-origin") not in _OWN_SITES:
        return False
    origin = headers.get("origin")
    # Hosts are compared without the scheme, because TLS may end at a proxy.
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()

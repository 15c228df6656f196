"""Middleware that looks at every request or response: headers for browsers, and who may be addressed."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graph_agent.api.errors import service_error_response
from graph_agent.errors import ServiceError, ServiceErrorCode

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)


class SecurityHeaders:
    """Nothing of this API is to be sniffed, cached, framed or run; a response that sets a header itself keeps it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def shielded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, shielded)


class LoopbackHostsOnly:
    """Refuses requests to any other name than this machine's own.

    Without bearer tokens whoever reaches the port is the user. A foreign page may make its own name lead to 127.0.0.1, but the
    browser then still says that name.
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

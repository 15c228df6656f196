"""The access log: one line for each request, without its query string, which may contain a token."""

from __future__ import annotations

import logging
import time
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ACCESS_LOGGER = "graph_agent.access"
_log = logging.getLogger(ACCESS_LOGGER)


def log_access(client: str, method: str, path: str, status: int, seconds: float) -> None:
    """Log one answered request; `status` is 0 if the client left before the answer."""
    ms = round(seconds * 1000, 1)
    fields = {"client": client, "method": method, "path": path, "status": status, "ms": ms}
    # Quoted, because a client chooses both: a space in them would begin another field of the line.
    _log.info("%s %s %s %d %.1f ms", quote(client, ":[]"), method, quote(path), status, ms, extra={"fields": fields})


class AccessLog:
    """Middleware that logs each request after its last byte was sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _log.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        status, started = 0, time.monotonic()

        async def send_and_remember_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_remember_status)
        finally:
            client = scope["client"][0] if scope["client"] else "-"
            log_access(client, scope["method"], scope["path"], status, time.monotonic() - started)

"""The address under which browsers reach the server, if a proxy serves it under a path of its host."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from graph_agent.api.middleware import HttpMiddleware


@dataclass(frozen=True, slots=True)
class PublicAddress:
    """The setting `GRAPH_AGENT_PUBLIC_URL`; empty without it."""

    url: str = ""

    @property
    def path(self) -> str:
        """The path of the server on its host, without a slash at its end; empty at the root of the host."""
        return urlsplit(self.url).path.rstrip("/")

    @property
    def root(self) -> str:
        """The path to which the cookies of the server belong."""
        return self.path or "/"

    def install(self, app: FastAPI) -> None:
        """Let `public_address` find this address in the requests to `app`."""
        app.state.public_address = self


def public_address(request: Request) -> PublicAddress:
    """Return the address of the application that serves `request`."""
    found: PublicAddress = request.app.state.public_address
    return found


class RemovePath(HttpMiddleware):
    """Removes the server's public path from the paths of requests; a proxy that has removed it already is as good."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        super().__init__(app)
        self._path = path
        self._raw = path.encode()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, raw = scope["path"], scope["raw_path"]
        if path == self._path:
            # Relative addresses in the page need the slash.
            query = scope["query_string"].decode("latin-1")
            await RedirectResponse(f"{path}/{'?' if query else ''}{query}", status_code=308)(scope, receive, send)
        elif path.startswith(f"{self._path}/") and raw.startswith(self._raw):
            shorter = {"path": path[len(self._path) :], "raw_path": raw[len(self._raw) :]}
            await self.app({**scope, **shorter}, receive, send)
        else:
            await self.app(scope, receive, send)

"""The sessions of streamable HTTP, limited for each user and in total.

A session takes about 30 KB, and any client opens one by `initialize`. The SDK only stops opening more of them: one client could
then keep all others out. Here the least recently used session of the user who has most makes room. Its client gets a 404 with
its next request, and initializes again, as the protocol says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from graph_agent.net.asgi import AsgiApp, Message, Receive, Send
from graph_agent.net.fair_table import FairTable

SESSIONS_OF_A_USER: Final = 50
SESSIONS: Final = 1000
IDLE_SECONDS: Final = 30 * 60
"""The time after which a session without an open request ends."""

_SESSION_ID: Final = b"mcp-session-id"
_COPIED: Final = ("type", "asgi", "http_version", "scheme", "path", "raw_path", "query_string", "root_path", "server", "user")


@dataclass(eq=False, slots=True)
class _Session:
    closing: Message
    """The scope of a request that ends the session."""
    requests: int = 0
    """The number of requests that are being served, without the stream on which a client listens."""


class SessionLimit:
    """ASGI middleware around the SDK's application that closes sessions beyond the limits."""

    def __init__(self, app: AsgiApp, per_user: int = SESSIONS_OF_A_USER, total: int = SESSIONS) -> None:
        self._app = app
        self._sessions: FairTable[_Session] = FairTable(per_user, total, lambda session: session.requests > 0)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        user_id, given = _user_of(scope), _header(scope["headers"])
        session = self._sessions.use(user_id, given.decode("latin-1")) if given else None

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._watch(scope, given, message)
            await send(message)

        counted = session is not None and scope["method"] == "POST"
        if session is not None and counted:
            session.requests += 1
        try:
            await self._app(scope, receive, watch)
        finally:
            if session is not None and counted:
                session.requests -= 1

    async def _watch(self, scope: Message, given: bytes, answer: Message) -> None:
        """Add the session that a request has opened, or remove the one that it found closed or has closed."""
        user_id, status = _user_of(scope), answer["status"]
        if given:
            if status == 404 or (scope["method"] == "DELETE" and status < 300):
                self._sessions.remove(user_id, given.decode("latin-1"))
        elif status < 300 and (opened := _header(answer.get("headers", ()))):
            for removed in self._sessions.add(user_id, opened.decode("latin-1"), _Session(_closing(scope, opened))):
                await self._app(removed.closing, _receive_nothing, _discard)


def _closing(scope: Message, session_id: bytes) -> Message:
    """Return the scope of the DELETE by which the client that sent `scope` would end its session."""
    kept = [(name, value) for name, value in scope["headers"] if name in (b"host", b"origin")]
    copied = {name: scope[name] for name in _COPIED if name in scope}
    return {**copied, "method": "DELETE", "headers": [*kept, (_SESSION_ID, session_id)]}


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(message: Message) -> None:
    """Take the answer of a request that no client has sent."""


def _user_of(scope: Message) -> str:
    """Return the user of a request; the one of a server without tokens has no name here."""
    user = scope.get("user")
    return (user.access_token.subject or "") if isinstance(user, AuthenticatedUser) else ""


def _header(headers: Any) -> bytes:
    """Return the id of the session that headers name; empty without one."""
    return next((value for name, value in headers if name.lower() == _SESSION_ID), b"")

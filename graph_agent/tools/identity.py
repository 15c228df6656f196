"""The HTTP headers by which a server learns who calls it: read before each request, so that a failure means "not sent"."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from graph_agent.clock import SystemClock
from graph_agent.net.addresses import require_allowed_host
from graph_agent.ports import Clock
from graph_agent.tools.transport import HttpServer, size_limited_client

Identity: TypeAlias = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the headers of the next request. May raise anything: then the server counts as unavailable."""
UserHeaders: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, str]]]
"""The hook of an application: `(user_id, server)` -> the headers by which this server knows this user."""

RENEW_BEFORE_SECONDS = 30.0
"""A token is renewed this long before it expires, or after half of its life if that is shorter."""

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


def invalid_header(headers: Mapping[str, Any]) -> str | None:
    """Return the name of a header that HTTP does not allow, or None. An HTTP library would show the value in its exception."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            return name
    return None


@dataclass(frozen=True)
class ClientCredentials:
    """The OAuth 2.0 client credentials of the runtime. The secret is sent to `token_url` only."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    allow_http: bool = False
    """`token_url` may be plain `http:` although it leads to another machine."""


class TokenSource:
    """An `Identity` that gets bearer tokens for client credentials, and renews each one before it expires."""

    def __init__(self, credentials: ClientCredentials, clock: Clock | None = None) -> None:
        self._credentials = credentials
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()
        self._headers: dict[str, str] = {}
        self._renew_at = 0.0

    async def __call__(self) -> Mapping[str, str]:
        """Return the Authorization header. Raises an exception of any type if there is no token."""
        async with self._lock:
            if not self._headers or self._clock.monotonic() >= self._renew_at:
                await self._renew()
            return self._headers

    async def _renew(self) -> None:
        credentials = self._credentials
        await asyncio.to_thread(require_allowed_host, credentials.token_url)
        form = {"grant_type": "client_credentials", **({"scope": credentials.scope} if credentials.scope else {})}
        async with size_limited_client(HttpServer(credentials.token_url, allow_http=credentials.allow_http)) as client:
            response = await client.post(
                credentials.token_url, data=form, auth=(credentials.client_id, credentials.client_secret)
            )
        answer = response.raise_for_status().json()
        lifetime = float(answer.get("expires_in", 3600))
        self._renew_at = self._clock.monotonic() + lifetime - min(RENEW_BEFORE_SECONDS, lifetime / 2)
        self._headers = {"Authorization": f"Bearer {answer['access_token']}"}

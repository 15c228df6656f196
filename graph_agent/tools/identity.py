"""The HTTP headers by which a server learns who calls it: read before each request, so that a failure means "not sent".

They have a token of the runtime, for its OAuth client credentials, or of a user who has signed in in a browser: MCP's OAuth,
with a redirect to this machine. A sign-in is kept in a file that only its owner can read, by the URL of the server, so that no
other server gets the token.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, Field

from graph_agent.clock import SystemClock
from graph_agent.db.private_file import lock_file, replace_private_file
from graph_agent.errors import ConfigurationError
from graph_agent.models.base import Frozen
from graph_agent.net.addresses import require_allowed_host, require_protected
from graph_agent.ports import Clock
from graph_agent.tools.transport import HttpServer, size_limited_client

Identity: TypeAlias = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the headers of the next request. May raise anything: then the server counts as unavailable."""
UserHeaders: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, str]]]
"""The hook of an application: `(user_id, server)` -> the headers by which this server knows this user."""

RENEW_BEFORE_SECONDS = 30.0
"""A token is renewed this long before it expires, or after half of its life if that is shorter."""

SIGN_IN_SECONDS = 300.0
"""The time that the user has in the browser."""
_DONE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nSigned in. You may close this window.\n"

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


def invalid_header(headers: Mapping[str, Any]) -> str | None:
    """Return the name of a header that HTTP does not allow, or None. An HTTP library would show the value in its exception."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            return name
    return None


class ClientCredentials(Frozen, kw_only=False):
    """The OAuth 2.0 client credentials of the runtime. The secret is sent to `token_url` only."""

    token_url: str = Field(pattern=r"^https?://\S+$")
    client_id: str
    client_secret: str = Field(repr=False)
    scope: str | None = None


def token_source(credentials: ClientCredentials, clock: Clock, *, allow_http: bool = False) -> Identity:
    """Return an `Identity` that gets bearer tokens for client credentials, and renews each one before it expires.

    With `allow_http` the token URL may be plain `http:` although it leads to another machine.
    """
    # The calls that wait for a new token share one request for it.
    lock = asyncio.Lock()
    headers: dict[str, str] = {}
    renew_at = 0.0

    async def current() -> Mapping[str, str]:
        nonlocal headers, renew_at
        async with lock:
            if not headers or clock.monotonic() >= renew_at:
                form = {"grant_type": "client_credentials", **({"scope": credentials.scope} if credentials.scope else {})}
                basic = httpx2.BasicAuth(credentials.client_id, credentials.client_secret)
                answer = await _request_tokens(credentials.token_url, form, basic, allow_http=allow_http)
                lifetime = float(answer.get("expires_in", 3600))
                renew_at = clock.monotonic() + lifetime - min(RENEW_BEFORE_SECONDS, lifetime / 2)
                headers = {"Authorization": f"Bearer {answer['access_token']}"}
            return headers

    return current


@dataclass(frozen=True)
class SignIns:
    """The file of sign-ins: for the URL of each server the tokens, and what renewing them needs."""

    file: Path

    def get(self, url: str) -> dict[str, Any] | None:
        """Return the sign-in to the server at `url`; None if there is none."""
        found: dict[str, Any] | None = self._read().get(url)
        return found

    def put(self, url: str, tokens: OAuthToken, renewal: Mapping[str, str], now: float) -> dict[str, Any]:
        """Store a sign-in, and return it. `renewal` has the token endpoint, the client and the resource."""
        sign_in = {
            "access_token": tokens.access_token,
            "refresh_token": tokens.refresh_token,
            "expires_at": None if tokens.expires_in is None else now + tokens.expires_in,
            "renewal": dict(renewal),
        }
        # Another process may store its sign-in to another server, and reads either the old file or the new one.
        with lock_file(self.file), replace_private_file(self.file) as file:
            file.write(json.dumps({**self._read(), url: sign_in}, indent=2).encode())
        return sign_in

    def _read(self) -> dict[str, Any]:
        try:
            with self.file.open(encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise ConfigurationError(f"others can read the sign-ins {self.file}: run chmod 600 {self.file}")
                document = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            raise ConfigurationError(f"the file of sign-ins {self.file} cannot be read: delete it and sign in again") from exc
        return document if isinstance(document, dict) else {}


def signed_in(server: HttpServer, sign_ins: SignIns, clock: Clock) -> Identity:
    """Return an `Identity`: the access token of a sign-in, renewed before it expires; nothing without a sign-in."""
    # A refresh token is often valid once: two renewals at the same time would end the sign-in.
    lock = asyncio.Lock()

    async def current() -> Mapping[str, str]:
        async with lock:
            # Read again each time, because another process may have renewed the tokens or signed in.
            found = sign_ins.get(server.url)
            if found is None:
                return {}
            now, expires = clock.now().timestamp(), found["expires_at"]
            if expires is not None and now >= expires - RENEW_BEFORE_SECONDS and found["refresh_token"]:
                answer = await _refresh(found, server)
                tokens = OAuthToken.model_validate({"refresh_token": found["refresh_token"], **answer})
                found = sign_ins.put(server.url, tokens, found["renewal"], now)
            return {"Authorization": f"Bearer {found['access_token']}"}

    return current


async def _refresh(found: Mapping[str, Any], server: HttpServer) -> dict[str, Any]:
    client = dict(found["renewal"])
    endpoint, secret, method = client.pop("token_endpoint"), client.pop("client_secret", None), client.pop("method", None)
    form = {"grant_type": "refresh_token", "refresh_token": found["refresh_token"], **client}
    in_header = secret is not None and method == "client_secret_basic"
    if secret is not None and not in_header:
        form["client_secret"] = secret
    basic = httpx2.BasicAuth(client["client_id"], secret or "") if in_header else httpx2.Auth()
    return await _request_tokens(endpoint, form, basic, allow_http=server.allow_http)


async def _request_tokens(endpoint: str, form: Mapping[str, str], auth: httpx2.Auth, *, allow_http: bool) -> dict[str, Any]:
    """Return the answer of a token endpoint. Raises an exception of any type if it gives no token."""
    await asyncio.to_thread(require_allowed_host, endpoint)
    async with size_limited_client(HttpServer(endpoint, allow_http=allow_http)) as client:
        response = await client.post(endpoint, data=form, auth=auth)
    answer: dict[str, Any] = response.raise_for_status().json()
    return answer


async def sign_in(server: HttpServer, sign_ins: SignIns, show: Callable[[str], None]) -> None:
    """Sign in to `server` and store the result; `show` opens the address in a browser. Raises `ConfigurationError`."""
    try:
        async with asyncio.timeout(SIGN_IN_SECONDS), _redirect(show, server) as (address, open_page, wait):
            about = OAuthClientMetadata(redirect_uris=[AnyUrl(address)], client_name="graph-agent")
            oauth = OAuthClientProvider(server.url, about, _Memory(), open_page, wait)
            async with size_limited_client(server) as client:
                # Any request does: without a token the server names its authorization server.
                ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                headers = {"Accept": "application/json, text/event-stream"}
                response = await client.post(server.url, json=ping, headers=headers, auth=oauth)
    except Exception as exc:
        raise ConfigurationError(f"the sign-in failed ({type(exc).__name__})") from exc
    tokens, client_info = oauth.context.current_tokens, oauth.context.client_info
    if tokens is None or client_info is None:
        raise ConfigurationError(f"the server does not ask for a sign-in: it answered with status {response.status_code}")
    metadata = oauth.context.oauth_metadata
    renewal = {
        "token_endpoint": str(metadata.token_endpoint) if metadata else urljoin(server.url, "/token"),
        "client_id": client_info.client_id,
        "client_secret": client_info.client_secret,
        "method": client_info.token_endpoint_auth_method,
        "resource": oauth.context.get_resource_url(),
    }
    given = {name: value for name, value in renewal.items() if value}
    sign_ins.put(server.url, tokens, given, SystemClock().now().timestamp())


class _Memory:
    """The SDK's storage for the time of one sign-in: each one begins anew."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        pass

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


@asynccontextmanager
async def _redirect(show: Callable[[str], None], server: HttpServer) -> AsyncIterator[Any]:
    """Listen on this machine for the browser's return: yield the address, and the two callbacks of the SDK."""
    returned: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    state = ""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode("latin-1").split(" ")
        query = dict(parse_qsl(urlsplit(line[1] if len(line) > 1 else "").query))
        # A request with another state is not this user's return, and must not end the sign-in.
        if state and query.get("state") == state and not returned.done():
            writer.write(_DONE)
            returned.set_result(query)
        writer.close()

    async def open_page(url: str) -> None:
        nonlocal state
        require_protected(url, allow_http=server.allow_http)
        state = dict(parse_qsl(urlsplit(url).query))["state"]
        show(url)

    async def wait() -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate({"code": "", **await returned})

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/callback", open_page, wait

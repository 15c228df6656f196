"""An MCP server over streamable HTTP: for one user on loopback, or for the users of bearer tokens on any address.

The SDK's middleware for tokens knows one set of scopes for all requests. Here a request that changes something needs one more,
and the answers name the scopes that a client has to ask for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from mcp.server import Server
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from graph_agent.errors import ServiceError
from graph_agent.models.unique_keys import RepeatedKeyError, unique_keys
from graph_agent.net.asgi import AsgiApp, Message, Receive, Send
from graph_agent.net.bearer_tokens import BearerTokens, bearer_token, is_same
from graph_agent.net.mcp_sessions import IDLE_SECONDS, SESSIONS, SessionLimit
from graph_agent.net.scopes import READ_SCOPE, WRITE_SCOPE

ROLES = "roles"
"""The claim of a verified token that has the user's roles."""
MAX_BODY_BYTES = 1024 * 1024
PATH = "/mcp"


class SubjectTokens(TokenVerifier):
    """The SDK's verifier for the bearer tokens of the API: the user is the subject."""

    def __init__(self, tokens: BearerTokens) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the verified token; None if it is not valid. Raises `ServiceError` if it cannot be checked now."""
        caller = await self._tokens.find(f"Bearer {token}")
        if caller is None:
            return None
        return AccessToken(
            token=token,
            client_id=caller.user_id,
            scopes=sorted(caller.scopes),
            subject=caller.user_id,
            claims={ROLES: list(caller.roles)},
        )


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The server as its clients know it: `url` is its address, `issuer` the authorization server, if there is a public one."""

    url: str
    issuer: str | None = None

    @property
    def path(self) -> str:
        return urlsplit(self.url).path or "/"

    @property
    def metadata_path(self) -> str:
        return f"/.well-known/oauth-protected-resource{self.path.rstrip('/')}"

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def metadata(self) -> dict[str, Any]:
        """Return the protected-resource metadata of RFC 9728."""
        servers = {} if self.issuer is None else {"authorization_servers": [self.issuer]}
        scopes = {"scopes_supported": [READ_SCOPE, WRITE_SCOPE], "bearer_methods_supported": ["header"]}
        return {"resource": self.url, **servers, **scopes}

    def security(self) -> TransportSecuritySettings:
        """Return the Host and Origin headers that are accepted; a request without Origin is not from a browser's page."""
        return TransportSecuritySettings(allowed_hosts=[urlsplit(self.url).netloc], allowed_origins=[self.origin])


def local_app(server: MCPServer[Any] | Server[Any], **options: Any) -> Any:
    """Return an ASGI application with `server` at /mcp. It accepts loopback Host and Origin headers only.

    `options` are those of `MCPServer.streamable_http_app`. Its sessions are limited: see `SessionLimit`.
    """
    limits = {"session_idle_timeout": IDLE_SECONDS, "max_sessions": 2 * SESSIONS, "max_request_body_size": MAX_BODY_BYTES}
    return SessionLimit(server.streamable_http_app(**{"json_response": True, **limits, **options}))


def protected_app(
    server: MCPServer[Any] | Server[Any],
    resource: ProtectedResource,
    verifier: TokenVerifier,
    *,
    reads: Callable[[object], bool],
    **options: Any,
) -> Any:
    """Return an ASGI application with `server` for the users of bearer tokens.

    A request needs the scope `read`, and a call of a tool for whose name `reads` is false also `write`.
    """
    # By default without sessions: any replica can serve a request, and no user can use up the sessions of the others.
    given = {"stateless_http": True, **options}
    app = local_app(server, streamable_http_path=resource.path, transport_security=resource.security(), **given)
    return _BearerGate(AuthContextMiddleware(app), app, resource, verifier, reads)


@dataclass(frozen=True, slots=True)
class LaunchTokenGate:
    """ASGI middleware that admits requests with the launch token: every account of a machine reaches its loopback addresses."""

    app: AsgiApp
    token: str = field(repr=False)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_same(_bearer_token(scope), self.token):
            await self.app(scope, receive, send)
            return
        body = {"error": "invalid_token", "error_description": "Send the launch token as a bearer token."}
        await _respond(send, 401, body, "Bearer")


@dataclass(frozen=True, slots=True)
class _BearerGate:
    """ASGI middleware that admits requests with a token, and serves the metadata that says where to get one."""

    admitted: AsgiApp
    app: AsgiApp
    resource: ProtectedResource
    verifier: TokenVerifier
    reads: Callable[[object], bool]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope["path"] == self.resource.metadata_path and scope["method"] == "GET":
            await _respond(send, 200, self.resource.metadata())
        else:
            await self._admit(scope, receive, send)

    async def _admit(self, scope: Message, receive: Receive, send: Send) -> None:
        token = _bearer_token(scope)
        try:
            access = None if not token else await self.verifier.verify_token(token)
        except ServiceError as failure:
            await _respond(send, 503, {"error": "temporarily_unavailable", "error_description": failure.message})
            return
        if access is None:
            await self._refuse(send, 401, "invalid_token", "A valid bearer token is required.", READ_SCOPE)
            return
        if READ_SCOPE not in access.scopes:
            await self._refuse(send, 403, "insufficient_scope", f"The scope {READ_SCOPE} is required.", READ_SCOPE)
            return
        if WRITE_SCOPE not in access.scopes and scope["method"] == "POST":
            body = await _read(receive)
            if body is None:
                await _respond(send, 413, {"error": "invalid_request", "error_description": "The request is too large."})
                return
            if self._changes(body):
                wanted = f"{READ_SCOPE} {WRITE_SCOPE}"
                await self._refuse(send, 403, "insufficient_scope", f"The scope {WRITE_SCOPE} is required.", wanted)
                return
            receive = _receive_again(body, receive)
        scope["user"] = AuthenticatedUser(access)
        await self.admitted(scope, receive, send)

    def _changes(self, body: bytes) -> bool:
        """True if the body calls a tool that is not known to read. The tools themselves check the scope again."""
        try:
            request = json.loads(body, object_pairs_hook=unique_keys)
        except RepeatedKeyError:
            # The parser of the request may take the other value.
            return True
        except (ValueError, RecursionError):
            return False
        if not isinstance(request, dict) or request.get("method") != "tools/call":
            return False
        params = request.get("params")
        return not (isinstance(params, dict) and self.reads(params.get("name")))

    async def _refuse(self, send: Send, status: int, error: str, description: str, scopes: str) -> None:
        metadata = f"{self.resource.origin}{self.resource.metadata_path}"
        challenge = (
            f'Bearer error="{error}", error_description="{description}", scope="{scopes}", resource_metadata="{metadata}"'
        )
        await _respond(send, status, {"error": error, "error_description": description}, challenge)


def _bearer_token(scope: Message) -> str:
    """Return the token of a request; empty if it has none or several."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    return bearer_token(values[0].decode("latin-1") if len(values) == 1 else None)


async def _read(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if it is longer than `MAX_BODY_BYTES`."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _receive_again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first returns `body`, which was read already, and after that calls the original `receive`."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_stored() -> Message:
        return messages.pop() if messages else await receive()

    return receive_stored


async def _respond(send: Send, status: int, body: dict[str, Any], challenge: str | None = None) -> None:
    content = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if challenge is not None:
        headers.append((b"www-authenticate", challenge.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})

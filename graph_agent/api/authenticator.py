"""The caller of a request: the subject of a bearer token or session, or the local user of a server without sign-in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from graph_agent.api.cookies import SESSION, USER_TOKEN
from graph_agent.api.sealed_tokens import SealedTokens
from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.secret import signing_keys
from graph_agent.net.bearer_tokens import BearerTokens, BrowserSessions, Caller, bearer_token
from graph_agent.net.user_token import UserToken
from graph_agent.settings import Settings

SESSION_HOURS = 8.0
"""The longest session of a browser. The issuer's tokens may expire within minutes."""


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Finds the caller of a request: the user of a bearer token, or of a browser whose user has signed in."""

    tokens: BearerTokens | None = None
    """None on a server without sign-in, whose only user is the local one. `LaunchSession` checks who may send requests."""
    sessions: BrowserSessions | None = None
    """None on a server without sign-in."""
    local_roles: tuple[str, ...] = ()
    """The roles of the local user of a server without sign-in."""
    operators: frozenset[str] = frozenset()
    """The users who may stop and resume, on a server with sign-in."""
    sealed_tokens: SealedTokens | None = None
    """Seals the tokens of browsers; None if no MCP server acts with the rights of its users."""

    def is_operator(self, caller: Caller) -> bool:
        """True for auditors, and for the local user, who operates this machine and can run commands that show the same."""
        return self.tokens is None or caller.is_auditor

    def may_stop(self, caller: Caller) -> bool:
        """True for operators, and for the local user, who can run the command that does the same."""
        return self.tokens is None or caller.user_id in self.operators

    async def caller(self, request: Request) -> Caller:
        """Return the caller of a request. Raises `ServiceError` UNAUTHENTICATED, or SERVICE_UNAVAILABLE."""
        if self.tokens is None:
            return Caller(LOCAL_USER, roles=self.local_roles)
        authorization = request.headers.get("authorization")
        if self.sessions is not None and authorization is None and (session := SESSION.read(request)):
            return await self.sessions.caller(f"Bearer {session}")
        return await self.tokens.caller(authorization)

    def user_token(self, request: Request, caller: Caller) -> UserToken | None:
        """Return the token by which the caller has signed in, for the servers that act with the rights of their users."""
        if self.tokens is None or self.sealed_tokens is None:
            return None
        if token := bearer_token(request.headers.get("authorization")):
            return UserToken(caller.user_id, token)
        return self.sealed_tokens.open(USER_TOKEN.read(request), caller.user_id)

    def keep_signed_in(
        self, request: Request, answer: Response, caller: Caller, token: str = "", until: float = math.inf
    ) -> None:
        """Give a session to the browser that gets `answer`, and its token, sealed. It ends at `until` at the latest."""
        if self.sessions is None:
            return
        SESSION.set(request, answer, self.sessions.issue(caller, until))
        if self.sealed_tokens is not None and token and (sealed := self.sealed_tokens.seal(UserToken(caller.user_id, token))):
            USER_TOKEN.set(request, answer, sealed)


def authenticator(settings: Settings, local_roles: Sequence[str] = (), *, act_as_users: bool = False) -> Authenticator:
    """Return the authenticator that the settings choose. Raises `ConfigurationError` for a malformed JWKS URL.

    Without sign-in the local user has these roles. With `act_as_users` it knows the tokens of the users.
    """
    if not settings.authenticates:
        return Authenticator(local_roles=tuple(local_roles))
    tokens, sessions = BearerTokens.of(settings), None
    if settings.secret is not None:
        seconds = 3600 * min(SESSION_HOURS, settings.jwt_max_hours)
        sessions = BrowserSessions(signing_keys(settings)[0], seconds, tokens.roles, settings.oidc_issuer or "")
    sealed = None
    if act_as_users:
        sealed = SealedTokens(signing_keys(settings)[0], 3600 * min(SESSION_HOURS, settings.jwt_max_hours))
    return Authenticator(tokens, sessions, operators=frozenset(settings.operators), sealed_tokens=sealed)

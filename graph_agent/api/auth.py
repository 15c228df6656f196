"""Authentication: the caller is the subject of a bearer token, or the local user of a server without authentication."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import Depends, Request

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.net.bearer_tokens import AUDITOR, BearerTokens, Caller
from graph_agent.settings import Settings


class Authenticator(Protocol):
    async def caller(self, authorization: str | None) -> Caller:
        """Return the caller that the header names. Raises `ServiceError` UNAUTHENTICATED, or SERVICE_UNAVAILABLE."""
        ...


class LocalUser:
    """Authenticates every request as the local user."""

    async def caller(self, authorization: str | None) -> Caller:  # noqa: ARG002 (the protocol has it)
        return Caller(LOCAL_USER)


def authenticator(settings: Settings) -> Authenticator:
    """Return the authenticator that the settings choose. Raises `ConfigurationError` for a malformed JWKS URL."""
    if not settings.authenticates:
        return LocalUser()
    return BearerTokens.of(settings)


async def _caller(request: Request) -> Caller:
    found: Caller = await request.app.state.authenticator.caller(request.headers.get("authorization"))
    return found


AuthenticatedCaller = Annotated[Caller, Depends(_caller)]
"""A route parameter that holds the caller; without a valid token the request ends with 401."""


async def _auditor(request: Request, caller: AuthenticatedCaller) -> Caller:
    # Without authentication the local user operates this machine, and can run commands that show the same.
    if caller.reads is not None and not isinstance(request.app.state.authenticator, LocalUser):
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, f"This needs a token with the scope {AUDITOR}.")
    return caller


Auditor = Annotated[Caller, Depends(_auditor)]
"""A route parameter that holds a caller who may read what is computed from the record of all users; others get 403."""

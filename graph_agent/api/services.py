"""The services that the routes of one application share, and the caller of a route.

The caller is the subject of a bearer token or session, or the local user of a server without sign-in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, FastAPI, Request

from graph_agent.api.launch_session import SESSION
from graph_agent.api.sse import StreamPlaces
from graph_agent.api.turn_admission import TurnAdmission
from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.stream import TurnStream
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.net.bearer_tokens import BearerTokens, BrowserSessions, Caller, role_claim
from graph_agent.replays.pool import ReplayPool
from graph_agent.settings import Settings

if TYPE_CHECKING:
    # These modules have routes, which use the services; the metrics belong to an extra.
    from graph_agent.api.health import WriteCheck
    from graph_agent.api.metrics import WorkerMetrics
    from graph_agent.api.oidc import OidcIssuer
    from graph_agent.telemetry.metrics import ServerMetrics


@dataclass
class ApiServices:
    """Everything that a route may use."""

    runtime: Runtime
    authenticator: Authenticator
    turn_admission: TurnAdmission
    stream: TurnStream
    streams: StreamPlaces
    replays: ReplayPool
    replay_streams: StreamPlaces
    analyses: StreamPlaces
    write_check: WriteCheck
    metrics: ServerMetrics | None
    worker_metrics: WorkerMetrics | None
    oidc: OidcIssuer | None
    open_turns: int | None = 0
    """Set at the end of the lifespan: the number of turns that this process leaves open, None if that is unknown."""


def services_of(app: FastAPI) -> ApiServices:
    """Return the services of an application that `create_app` has made."""
    found: ApiServices = app.state.services
    return found


def services(request: Request) -> ApiServices:
    """Return the services of the application that serves `request`."""
    return services_of(request.app)


SESSION_HOURS = 8.0
"""The longest session of a browser after a sign-in at the issuer. The issuer's tokens may expire within minutes."""


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Finds the caller of a request: the user of a bearer token, or of a browser whose user has signed in at the issuer."""

    tokens: BearerTokens | None = None
    """None on a server without sign-in, whose only user is the local one. `LaunchSession` checks who may send requests."""
    sessions: BrowserSessions | None = None
    """None without an issuer: no browser has a session then."""

    async def caller(self, request: Request) -> Caller:
        """Return the caller of a request. Raises `ServiceError` UNAUTHENTICATED, or SERVICE_UNAVAILABLE."""
        if self.tokens is None:
            return Caller(LOCAL_USER)
        authorization = request.headers.get("authorization")
        if self.sessions is not None and authorization is None and (session := SESSION.read(request)):
            return await self.sessions.caller(f"Bearer {session}")
        return await self.tokens.caller(authorization)


def authenticator(settings: Settings) -> Authenticator:
    """Return the authenticator that the settings choose. Raises `ConfigurationError` for a malformed JWKS URL."""
    if not settings.authenticates:
        return Authenticator()
    sessions = None
    if settings.oidc_issuer is not None and settings.secret is not None:
        seconds = 3600 * min(SESSION_HOURS, settings.jwt_max_hours)
        sessions = BrowserSessions(settings.secret.get_secret_value().encode(), seconds, role_claim(settings))
    return Authenticator(BearerTokens.of(settings), sessions)


async def _caller(request: Request) -> Caller:
    found: Caller = await services(request).authenticator.caller(request)
    return found


AuthenticatedCaller = Annotated[Caller, Depends(_caller)]
"""A route parameter that holds the caller; without a valid token the request ends with 401."""


async def _auditor(request: Request, caller: AuthenticatedCaller) -> Caller:
    # Without authentication the local user operates this machine, and can run commands that show the same.
    if caller.reads is not None and services(request).authenticator.tokens is not None:
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "This needs the role of an auditor.")
    return caller


Auditor = Annotated[Caller, Depends(_auditor)]
"""A route parameter that holds a caller who may read what is computed from the record of all users; others get 403."""

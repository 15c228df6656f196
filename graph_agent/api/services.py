"""The services that the routes of one application share, and the caller of a route.

The caller is the subject of a bearer token or session, or the local user of a server without sign-in. Such a server is for
those who know its launch token: they send it, or the cookie of a browser that has opened the link with it. Scripts cannot read
the cookies of browsers, and requests that other sites make do not have them.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, FastAPI, Request
from starlette.responses import Response

from graph_agent.api.errors import service_error_response
from graph_agent.api.sse import StreamPlaces
from graph_agent.api.turn_admission import TurnAdmission
from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.bootstrap.secret import signing_keys
from graph_agent.chat.stream import TurnStream
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.net.bearer_tokens import BearerTokens, BrowserSessions, Caller, bearer_token, is_same
from graph_agent.replays.pool import ReplayPool
from graph_agent.settings import Settings

if TYPE_CHECKING:
    # These modules have routes, which use the services; the metrics belong to an extra.
    from graph_agent.api.monitoring import WorkerMetrics, WriteCheck
    from graph_agent.api.oidc import OidcIssuer
    from graph_agent.integrations.opentelemetry.metrics import ServerMetrics


@dataclass(frozen=True, slots=True)
class BrowserCookie:
    """A cookie that this server sets and reads."""

    purpose: str

    def read(self, request: Request) -> str:
        """Return the value; without the cookie it is empty."""
        return request.cookies.get(self._name(request), "")

    def set(self, request: Request, answer: Response, value: str, seconds: int | None = None) -> None:
        """Set the cookie for so many seconds, or until the browser is closed."""
        # TLS ends at a proxy. A browser says by Origin what it has used; requests without a body have no Origin.
        encrypted = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")
        answer.set_cookie(self._name(request), value, seconds, httponly=True, samesite="strict", secure=encrypted)

    def delete(self, request: Request, answer: Response) -> None:
        answer.delete_cookie(self._name(request), httponly=True, samesite="strict")

    def _name(self, request: Request) -> str:
        """Return the name of the cookie. It contains the port, because the ports of a host share their cookies."""
        port = request.headers.get("host", "").rpartition(":")[2]
        return f"graph_agent_{self.purpose}{f'_{port}' if port.isdecimal() else ''}"


SESSION = BrowserCookie("session")
SIGN_IN = BrowserCookie("sign_in")

_OPEN = frozenset({"/healthz", "/readyz", "/metrics"})
"""The paths that need no token. `/metrics` is served on a separate port only."""


@dataclass(frozen=True, slots=True)
class LaunchSession:
    """The session of the clients that know the launch token.

    Every account of a machine reaches its loopback addresses, and so do the web pages that a browser shows. The token proves
    that a client acts for the account that started the server.
    """

    token: str = field(repr=False)

    def refuse(self, request: Request, open_to_all: Callable[[Request], bool] | None = None) -> Response | None:
        """Refuse a request that needs the token and does not have it. All routes need it but these and `open_to_all`."""
        if request.scope["path"] in _OPEN or (open_to_all is not None and open_to_all(request)):
            return None
        if self.has_cookie(request) or is_same(bearer_token(request.headers.get("authorization")), self.token):
            return None
        text = "Send the launch token, or open the page with the link that `graph-agent serve` printed."
        return service_error_response(ServiceError(ServiceErrorCode.UNAUTHENTICATED, text))

    def has_cookie(self, request: Request) -> bool:
        """True if the request comes from a browser that has opened the link."""
        return is_same(SESSION.read(request), self._cookie)

    def sign_in(self, request: Request, answer: Response) -> None:
        """Give the cookie to the browser that gets `answer`. It outlives a restart, as the token does."""
        SESSION.set(request, answer, self._cookie)

    @property
    def _cookie(self) -> str:
        # Not the token itself: browsers send cookies to all ports of a host.
        return hmac.digest(self.token.encode(), b"browser session", "sha256").hex()


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
    tokens, sessions = BearerTokens.of(settings), None
    if settings.oidc_issuer is not None and settings.secret is not None:
        seconds = 3600 * min(SESSION_HOURS, settings.jwt_max_hours)
        sessions = BrowserSessions(signing_keys(settings)[0], seconds, tokens.roles)
    return Authenticator(tokens, sessions)


async def _caller(request: Request) -> Caller:
    return await services(request).authenticator.caller(request)


AuthenticatedCaller = Annotated[Caller, Depends(_caller)]
"""A route parameter that holds the caller; without a valid token the request ends with 401."""


async def _auditor(request: Request, caller: AuthenticatedCaller) -> Caller:
    # Without authentication the local user operates this machine, and can run commands that show the same.
    if caller.reads is not None and services(request).authenticator.tokens is not None:
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "This needs the role of an auditor.")
    return caller


Auditor = Annotated[Caller, Depends(_auditor)]
"""A route parameter that holds a caller who may read what is computed from the record of all users; others get 403."""

"""Bearer tokens: JSON Web Tokens, whose subject is the user, for the API and for the task server over HTTP."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

import httpx2
import jwt

from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode
from graph_agent.models.decision import unstorable
from graph_agent.net.connections import fetch
from graph_agent.settings import Settings

_log = logging.getLogger(__name__)

MAX_USER_ID_LENGTH = 255
MAX_KEYS_BYTES = 1024 * 1024
CLOCK_LEEWAY_SECONDS = 60.0
"""The difference that is allowed between our clock and that of the token's issuer."""
FETCH_SECONDS = 10.0
"""The longest wait for published keys; with a timeout for each read alone, a server could send a byte at a time for ever."""
_SESSION = "graph-agent browser session"

_ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signature algorithms accepted with a published key. HS256 is not among them: a published key must not serve as a secret."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated user of a request, and the scopes that the token grants."""

    user_id: str
    scopes: frozenset[str] = frozenset()
    is_auditor: bool = False
    roles: tuple[str, ...] = ()
    """The roles that conditions may name, sorted."""
    expires_at: float = math.inf
    """The expiry of the token, in seconds since 1970."""

    @property
    def reads(self) -> str | None:
        """The user whose decisions the caller may read; None if it may read those of all users."""
        return None if self.is_auditor else self.user_id


@dataclass(frozen=True, slots=True)
class Auditors:
    """The callers who may read the record of all users, and what is computed from it.

    Scopes are not asked: clients request them for their users, and many issuers grant every scope that is requested.
    """

    subjects: frozenset[str] = frozenset()
    claim: tuple[str, str] | None = None
    """The name of a claim, and the value that it has or that is in its list."""

    def include(self, claims: dict[str, Any]) -> bool:
        return claims["sub"] in self.subjects or (self.claim is not None and self.claim[1] in _values(claims, self.claim[0]))


@dataclass(frozen=True, slots=True)
class RoleClaim:
    """The claim that has the user's roles, as a text or a list of texts, and the roles that count."""

    name: str
    roles: frozenset[str]

    def read(self, claims: dict[str, Any]) -> tuple[str, ...]:
        return tuple(sorted({role for role in _values(claims, self.name) if role in self.roles}))


def _values(claims: dict[str, Any], name: str) -> list[Any]:
    """Return the values of a claim, which may be a single one."""
    found = claims.get(name)
    return found if isinstance(found, list) else [found]


class PublishedKeys(jwt.PyJWKClient):
    """The keys that a JWKS URL publishes. A response is limited in time and size, and redirects are not followed."""

    def fetch_data(self) -> Any:
        try:
            # The caller's thread has no event loop.
            status, body = asyncio.run(fetch(self.uri, seconds=FETCH_SECONDS, max_bytes=MAX_KEYS_BYTES))
            if not 200 <= status < 300:
                raise ValueError(f"the status is {status}")
            keys = self._as_jwk_set_payload(json.loads(body))
        except (httpx2.HTTPError, OSError, ValueError) as exc:
            raise jwt.PyJWKClientConnectionError("the published keys cannot be fetched") from exc
        # The base class reads this time to limit how often an unknown key leads to another fetch.
        self._last_successful_fetch = time.monotonic()
        return keys


def bearer_token(authorization: str | None) -> str:
    """Return the token of an Authorization header; empty if it has none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_same(sent: str, secret: str) -> bool:
    """True for equal texts. The time does not depend on how much of `sent` is right."""
    return hmac.compare_digest(sent.encode(), secret.encode())


@dataclass(eq=False, repr=False)
class BearerTokens:
    """Authenticates JSON Web Tokens, signed with the shared secret or with a key that a JWKS URL publishes.

    A token that is valid for more than `max_seconds` from now is refused, and so is one of another `issuer`.
    """

    audience: str
    secret: str | None = None
    jwks_url: str | None = None
    issuer: str | None = None
    max_seconds: float = 86_400
    auditors: Auditors = Auditors()
    roles: RoleClaim | None = None

    def __post_init__(self) -> None:
        # In its own thread: a server that answers slowly must not occupy the threads that other parts of the process need.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jwks")
        try:
            self._keys = PublishedKeys(self.jwks_url) if self.jwks_url is not None else None
        except jwt.PyJWKClientError as exc:
            raise ConfigurationError("GRAPH_AGENT_JWKS_URL must be an http or https URL") from exc

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the tokens that the settings accept. Raises `ConfigurationError` for a malformed JWKS URL."""
        name, _, value = (settings.auditor_claim or "").partition("=")
        roles = RoleClaim(settings.roles.partition("=")[0], frozenset(settings.role_names)) if settings.roles else None
        return cls(
            settings.jwt_audience or "",
            secret=settings.jwt_secret.get_secret_value() if settings.jwt_secret else None,
            jwks_url=settings.jwks_url,
            issuer=settings.jwt_issuer or settings.oidc_issuer,
            max_seconds=3600 * settings.jwt_max_hours,
            auditors=Auditors(frozenset(settings.auditors), (name, value) if name else None),
            roles=roles,
        )

    async def caller(self, authorization: str | None) -> Caller:
        token = bearer_token(authorization)
        if not token:
            raise _unauthenticated("A bearer token is required.")
        try:
            claims = await self._claims(token)
            roles = () if self.roles is None else self.roles.read(claims)
            return Caller(_subject(claims), _scopes(claims), self.auditors.include(claims), roles, claims["exp"])
        except (jwt.PyJWKClientConnectionError, TimeoutError) as exc:
            _log.warning("the keys of the bearer tokens cannot be fetched", exc_info=exc)
            text = "The token cannot be checked right now. Please try again later."
            raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text) from exc
        except Exception as exc:
            # A token that makes the parser fail, in whatever way, is not valid.
            raise _unauthenticated("The bearer token is not valid.") from exc

    async def find(self, authorization: str) -> Caller | None:
        """Return the caller; None if the token is not valid."""
        try:
            return await self.caller(authorization)
        except ServiceError as exc:
            if exc.code is ServiceErrorCode.UNAUTHENTICATED:
                return None
            raise

    async def _claims(self, token: str) -> dict[str, Any]:
        if self._keys is None:
            return self._decode(token, self.secret, ["HS256"])
        # In a thread, because it may fetch keys over the network, and blocks meanwhile.
        async with asyncio.timeout(FETCH_SECONDS):
            looking_up = asyncio.get_running_loop().run_in_executor(self._thread, self._keys.get_signing_key_from_jwt, token)
            key = await looking_up
        return self._decode(token, key, _ASYMMETRIC)

    def _decode(self, token: str, key: Any, algorithms: list[str]) -> dict[str, Any]:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=algorithms,
            audience=self.audience,
            issuer=self.issuer,
            options={"require": ["exp", "aud", "sub", *(["iss"] if self.issuer else [])]},
        )
        # PyJWT accepts any number; one that is not a date would never expire.
        expires = datetime.fromtimestamp(claims["exp"], UTC)
        if (expires - datetime.now(UTC)).total_seconds() > self.max_seconds + CLOCK_LEEWAY_SECONDS:
            raise ValueError("the token is valid for too long")
        return claims


class BrowserSessions(BearerTokens):
    """The sessions of browsers whose user has signed in: tokens of our own, which fit into a cookie.

    Every replica accepts them, because they are signed with a key that is derived from the shared secret.
    """

    def __init__(self, secret: bytes, seconds: float, roles: RoleClaim | None, issuer: str) -> None:
        """`roles` is the claim of the bearer tokens, which the session has too. Without their `issuer` no session is valid."""
        self._key = hmac.digest(secret, f"browser session {issuer}".encode(), "sha256").hex()
        super().__init__(_SESSION, self._key, max_seconds=seconds, auditors=Auditors(claim=("auditor", "yes")), roles=roles)

    def issue(self, caller: Caller, until: float = math.inf) -> str:
        """Return the session of a caller whose token was accepted. It ends at `until` at the latest, in seconds since 1970."""
        claims = {"sub": caller.user_id, "aud": _SESSION, "exp": int(min(time.time() + self.max_seconds, until))}
        roles = {} if self.roles is None else {self.roles.name: list(caller.roles)}
        return jwt.encode({**roles, **claims, "auditor": "yes" if caller.is_auditor else "no"}, self._key, algorithm="HS256")


def _subject(claims: dict[str, Any]) -> str:
    subject = claims["sub"]
    if not isinstance(subject, str) or not subject.strip() or len(subject) > MAX_USER_ID_LENGTH or unstorable(subject):
        raise ValueError("the token's subject is not a valid user id")
    return subject


def _scopes(claims: dict[str, Any]) -> frozenset[str]:
    granted = claims.get("scope")
    return frozenset(granted.split()) if isinstance(granted, str) else frozenset()


def _unauthenticated(text: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.UNAUTHENTICATED, text)

"""Bearer tokens: JSON Web Tokens, whose subject is the user, for the API and for the task server over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

import httpx
import jwt

from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode
from graph_agent.models.decision import unstorable
from graph_agent.net.addresses import require_allowed_host
from graph_agent.settings import Settings

_log = logging.getLogger(__name__)

MAX_USER_ID_LENGTH = 255
MAX_KEYS_BYTES = 1024 * 1024
CLOCK_LEEWAY_SECONDS = 60.0
"""The difference that is allowed between our clock and that of the token's issuer."""
FETCH_SECONDS = 10.0
"""The longest wait for published keys; with a timeout for each read alone, a server could send a byte at a time for ever."""

_ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signature algorithms accepted with a published key. HS256 is not among them: a published key must not serve as a secret."""


AUDITOR = "auditor"
"""The scope of a token whose caller may read the record of all users, and what is computed from it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated user of a request, and the scopes that the token grants."""

    user_id: str
    scopes: frozenset[str] = frozenset()

    @property
    def reads(self) -> str | None:
        """The user whose decisions the caller may read; None if it may read those of all users."""
        return None if AUDITOR in self.scopes else self.user_id


class PublishedKeys(jwt.PyJWKClient):
    """The keys that a JWKS URL publishes. A response is limited in time and size, and redirects are not followed."""

    def fetch_data(self) -> Any:
        ends = time.monotonic() + FETCH_SECONDS
        try:
            require_allowed_host(self.uri)
            uncompressed = {"Accept-Encoding": "identity"}
            with httpx.stream(
                "GET", self.uri, headers=uncompressed, timeout=FETCH_SECONDS / 2, follow_redirects=False
            ) as response:
                response.raise_for_status()
                body = bytearray()
                for chunk in response.iter_raw():
                    body += chunk
                    if len(body) > MAX_KEYS_BYTES or time.monotonic() > ends:
                        raise TimeoutError("the published keys are too long or take too long")
            keys = self._as_jwk_set_payload(json.loads(body))
        except (httpx.HTTPError, OSError, ValueError) as exc:
            raise jwt.PyJWKClientConnectionError("the published keys cannot be fetched") from exc
        # The base class reads this time to limit how often an unknown key leads to another fetch.
        self._last_successful_fetch = time.monotonic()
        return keys


class BearerTokens:
    """Authenticates JSON Web Tokens, signed with the shared secret or with a key that a JWKS URL publishes."""

    def __init__(
        self,
        audience: str,
        *,
        secret: str | None = None,
        jwks_url: str | None = None,
        issuer: str | None = None,
        max_seconds: float = 86_400,
    ) -> None:
        """A token that is valid for more than `max_seconds` from now is refused, and so is one of another `issuer`."""
        self._audience = audience
        self._issuer = issuer
        self._secret = secret
        self._max_seconds = max_seconds
        # In its own thread: a server that answers slowly must not occupy the threads that other parts of the process need.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jwks")
        try:
            self._keys = PublishedKeys(jwks_url) if jwks_url is not None else None
        except jwt.PyJWKClientError as exc:
            raise ConfigurationError("GRAPH_AGENT_JWKS_URL must be an http or https URL") from exc

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the tokens that the settings accept. Raises `ConfigurationError` for a malformed JWKS URL."""
        return cls(
            settings.jwt_audience or "",
            secret=settings.jwt_secret.get_secret_value() if settings.jwt_secret else None,
            jwks_url=settings.jwks_url,
            issuer=settings.jwt_issuer or settings.oidc_issuer,
            max_seconds=3600 * settings.jwt_max_hours,
        )

    async def caller(self, authorization: str | None) -> Caller:
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise _unauthenticated("A bearer token is required.")
        try:
            claims = await self._claims(token)
            return Caller(_subject(claims), _scopes(claims))
        except (jwt.PyJWKClientConnectionError, TimeoutError) as exc:
            _log.warning("the keys of the bearer tokens cannot be fetched", exc_info=exc)
            text = "The token cannot be checked right now. Please try again later."
            raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text) from exc
        except Exception as exc:
            # A token that makes the parser fail, in whatever way, is not valid.
            raise _unauthenticated("The bearer token is not valid.") from exc

    async def _claims(self, token: str) -> dict[str, Any]:
        if self._keys is None:
            return self._decode(token, self._secret, ["HS256"])
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
            audience=self._audience,
            issuer=self._issuer,
            options={"require": ["exp", "aud", "sub", *(["iss"] if self._issuer else [])]},
        )
        # PyJWT accepts any number; one that is not a date would never expire.
        expires = datetime.fromtimestamp(claims["exp"], UTC)
        if (expires - datetime.now(UTC)).total_seconds() > self._max_seconds + CLOCK_LEEWAY_SECONDS:
            raise ValueError("the token is valid for too long")
        return claims


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

"""Who asks: the subject of a bearer token, or the one local user of a server without authentication."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode
from graph_agent.models.decision import unstorable
from graph_agent.settings import Settings

_log = logging.getLogger(__name__)

MAX_USER_ID_LENGTH = 255

_ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""What a published key may sign with. A shared key is never taken for a published one, nor the other way round."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The user a request is for, and what the token grants besides the user's own data."""

    user_id: str
    scopes: frozenset[str] = frozenset()


class Authenticator(Protocol):
    async def caller(self, authorization: str | None) -> Caller:
        """Whom the Authorization header names. Raises `ServiceError` UNAUTHENTICATED, or SERVICE_UNAVAILABLE."""
        ...


class LocalUser:
    """Everybody is the one local user."""

    async def caller(self, authorization: str | None) -> Caller:  # noqa: ARG002 - whatever it says
        return Caller(LOCAL_USER)


class BearerTokens:
    """JSON Web Tokens, signed with our shared key or with a key that is published under a URL."""

    def __init__(self, audience: str, *, secret: str | None = None, jwks_url: str | None = None) -> None:
        # Imported here: a server without authentication does not pay for the cryptography.
        import jwt

        self._jwt = jwt
        self._audience = audience
        self._secret = secret
        try:
            self._keys = jwt.PyJWKClient(jwks_url, timeout=5) if jwks_url is not None else None
        except jwt.PyJWKClientError as exc:
            raise ConfigurationError("GRAPH_AGENT_JWKS_URL must be an http or https URL") from exc

    async def caller(self, authorization: str | None) -> Caller:
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise _unauthenticated("A bearer token is required.")
        try:
            claims = await self._claims(token)
            return Caller(_subject(claims), _scopes(claims))
        except self._jwt.PyJWKClientConnectionError as exc:
            _log.warning("the keys of the bearer tokens cannot be fetched", exc_info=exc)
            text = "The token cannot be checked right now. Please try again later."
            raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text) from exc
        except Exception as exc:
            # Whatever a token does to those who read it: it is no valid token.
            raise _unauthenticated("The bearer token is not valid.") from exc

    async def _claims(self, token: str) -> dict[str, Any]:
        if self._keys is None:
            return self._decoded(token, self._secret, ["HS256"])
        # It may ask the network, and blocks meanwhile.
        key = await asyncio.to_thread(self._keys.get_signing_key_from_jwt, token)
        return self._decoded(token, key, _ASYMMETRIC)

    def _decoded(self, token: str, key: Any, algorithms: list[str]) -> dict[str, Any]:
        claims: dict[str, Any] = self._jwt.decode(
            token,
            key,
            algorithms=algorithms,
            audience=self._audience,
            options={"require": ["exp", "aud", "sub"]},
        )
        # An end that is no date is none at all.
        datetime.fromtimestamp(claims["exp"], UTC)
        return claims


def authenticator(settings: Settings) -> Authenticator:
    """What the settings ask for. Raises `ConfigurationError` for a URL that cannot be asked."""
    if not settings.authenticates:
        return LocalUser()
    secret = settings.jwt_secret.get_secret_value() if settings.jwt_secret else None
    return BearerTokens(settings.jwt_audience or "", secret=secret, jwks_url=settings.jwks_url)


async def _caller(request: Request) -> Caller:
    found: Caller = await request.app.state.authenticator.caller(request.headers.get("authorization"))
    return found


AuthenticatedCaller = Annotated[Caller, Depends(_caller)]
"""A route's parameter: the caller, or the request ends with 401."""


def _subject(claims: dict[str, Any]) -> str:
    subject = claims["sub"]
    if not isinstance(subject, str) or not subject.strip() or len(subject) > MAX_USER_ID_LENGTH or unstorable(subject):
        raise ValueError("the subject is no user id")
    return subject


def _scopes(claims: dict[str, Any]) -> frozenset[str]:
    granted = claims.get("scope")
    return frozenset(granted.split()) if isinstance(granted, str) else frozenset()


def _unauthenticated(text: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.UNAUTHENTICATED, text)

"""Signing in to the page with OpenID Connect: an authorization code with PKCE, for a public client.

The browser goes to the issuer's own page and comes back with a code. The code is exchanged here, not by the page, so that the
page's Content-Security-Policy still allows requests to its own origin only. The page gets the token and keeps it in
memory; the server keeps nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, Request
from pydantic import Field, ValidationError

from graph_agent.api.auth import Authenticator
from graph_agent.api.body import invalid, read_object
from graph_agent.api.schemas import errors
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen
from graph_agent.net.addresses import require_allowed_host
from graph_agent.settings import Settings

_log = logging.getLogger(__name__)

router = APIRouter(prefix="/api", tags=["sign-in"])

FETCH_SECONDS = 10.0
MAX_ANSWER_BYTES = 256 * 1024
METADATA_SECONDS = 3600.0
"""The time for which the issuer's metadata are kept."""
MAX_EXCHANGES = 8
"""The number of requests to the issuer at the same time, because a client without a token can cause them."""


class SignInStart(Frozen):
    """The values that the page needs to send the browser to the issuer."""

    authorization_endpoint: str
    client_id: str
    scope: str


class AuthorizationCode(Frozen):
    """The code that the issuer has given to the browser, and the PKCE secret of the browser that asked for it."""

    code: str = Field(min_length=1, max_length=4096)
    code_verifier: str = Field(pattern=r"^[A-Za-z0-9._~-]{43,128}$")
    redirect_uri: str = Field(min_length=1, max_length=2048)


class SignedIn(Frozen):
    """A bearer token that this API accepts."""

    token: str


_WebAddress = Annotated[str, Field(pattern=r"^https?://")]


class _Metadata(Frozen):
    """The part of the issuer's discovery document that is used."""

    issuer: str
    authorization_endpoint: _WebAddress
    token_endpoint: _WebAddress


_CODE_BODY = {"required": True, "content": {"application/json": {"schema": AuthorizationCode.model_json_schema()}}}


class OidcIssuer:
    """The issuer that `GRAPH_AGENT_OIDC_ISSUER` names."""

    def __init__(self, issuer: str, client_id: str, scope: str, authenticator: Authenticator) -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._scope = scope
        self._authenticator = authenticator
        self._metadata: tuple[float, _Metadata] | None = None
        self._exchanges = asyncio.Semaphore(MAX_EXCHANGES)

    async def start(self) -> SignInStart:
        """Return the address of the issuer's sign-in. Raises `ServiceError` SERVICE_UNAVAILABLE."""
        metadata = await self._fetch_metadata()
        return SignInStart(authorization_endpoint=metadata.authorization_endpoint, client_id=self._client_id, scope=self._scope)

    async def exchange(self, sent: AuthorizationCode) -> SignedIn:
        """Exchange a code for a token. Raises `ServiceError`: UNAUTHENTICATED, or SERVICE_UNAVAILABLE."""
        metadata = await self._fetch_metadata()
        form = {"grant_type": "authorization_code", "client_id": self._client_id, **dict(sent)}
        status, tokens = await self._ask("POST", metadata.token_endpoint, form)
        if status != 200:
            _log.warning("the issuer refused a sign-in with status %d", status)
            raise _refused()
        # Some issuers give an access token that only they can read; their ID token is a JSON Web Token in any case.
        for name in ("access_token", "id_token"):
            if isinstance(token := tokens.get(name), str) and await self._accepts(token):
                return SignedIn(token=token)
        _log.warning("the issuer's tokens are not accepted: check GRAPH_AGENT_JWT_AUDIENCE and the keys")
        raise _refused()

    async def _accepts(self, token: str) -> bool:
        try:
            await self._authenticator.caller(f"Bearer {token}")
        except ServiceError as exc:
            if exc.code is ServiceErrorCode.UNAUTHENTICATED:
                return False
            raise
        return True

    async def _fetch_metadata(self) -> _Metadata:
        now = time.monotonic()
        if self._metadata is not None and now < self._metadata[0]:
            return self._metadata[1]
        status, document = await self._ask("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        try:
            metadata = _Metadata.model_validate({name: document.get(name) for name in _Metadata.model_fields})
        except ValidationError:
            metadata = None
        # OpenID Connect Discovery requires that the issuer is exactly the configured one.
        if status != 200 or metadata is None or metadata.issuer != self._issuer:
            _log.warning("the metadata of the OIDC issuer cannot be used")
            raise _unavailable()
        self._metadata = now + METADATA_SECONDS, metadata
        return metadata

    async def _ask(self, method: str, url: str, form: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of an answer, which is limited in time and size."""
        if self._exchanges.locked():
            raise _unavailable()
        try:
            async with self._exchanges, asyncio.timeout(FETCH_SECONDS):
                await asyncio.to_thread(require_allowed_host, url)
                headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
                async with (
                    httpx.AsyncClient(headers=headers, timeout=FETCH_SECONDS, follow_redirects=False) as client,
                    client.stream(method, url, data=form) as response,
                ):
                    body = bytearray()
                    async for chunk in response.aiter_raw():
                        body += chunk
                        if len(body) > MAX_ANSWER_BYTES:
                            raise ValueError("the answer is too long")
            answer = json.loads(body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, RecursionError) as exc:
            _log.warning("the OIDC issuer does not answer as it should", exc_info=exc)
            raise _unavailable() from exc
        return response.status_code, answer if isinstance(answer, dict) else {}


def oidc_issuer(settings: Settings, authenticator: Authenticator) -> OidcIssuer | None:
    """Return the issuer that the settings name; None without one."""
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    return OidcIssuer(settings.oidc_issuer, settings.oidc_client_id, settings.oidc_scope, authenticator)


@router.get("/sign-in", responses=errors(503))
async def start(request: Request) -> SignInStart:
    """Return the values with which the page sends the browser to the issuer. The request needs no token."""
    issuer: OidcIssuer = request.app.state.oidc
    return await issuer.start()


@router.post(
    "/sign-in",
    responses=errors(401, 413, 415, 422, 503),
    # Declared by hand, because the route reads the body itself: with a size limit, and without echoing it in errors.
    openapi_extra={"requestBody": _CODE_BODY},
)
async def exchange(request: Request) -> SignedIn:
    """Exchange an authorization code of the issuer for a bearer token of this API."""
    issuer: OidcIssuer = request.app.state.oidc
    try:
        sent = AuthorizationCode.model_validate(await read_object(request))
    except ValidationError:
        raise invalid("A sign-in needs a code, its code_verifier and its redirect_uri.") from None
    return await issuer.exchange(sent)


def _refused() -> ServiceError:
    return ServiceError(ServiceErrorCode.UNAUTHENTICATED, "The sign-in was not accepted. Please try again.")


def _unavailable() -> ServiceError:
    text = "The sign-in service cannot be reached right now. Please try again later."
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text)

"""Signing in to the page with OpenID Connect: an authorization code with PKCE, for a public client.

The browser goes to the issuer's own page and comes back with a code. The code is exchanged here, not by the page, so that the
page's Content-Security-Policy still allows requests to its own origin only. The browser gets a session in a cookie that scripts
cannot read. No token of the issuer reaches the page, and the server keeps nothing: if an MCP server acts with the rights of its
users, the browser keeps the access token in another such cookie, sealed.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import math
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Annotated, Any
from weakref import WeakValueDictionary

import httpx2
from fastapi import Request
from pydantic import Field, ValidationError

from graph_agent.api.authenticator import Authenticator
from graph_agent.api.errors import busy
from graph_agent.bootstrap.secret import signing_keys
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen
from graph_agent.net.addresses import require_protected
from graph_agent.net.bearer_tokens import BearerTokens, Caller
from graph_agent.net.connections import fetch
from graph_agent.settings import Settings

_log = logging.getLogger(__name__)

FETCH_SECONDS = 10.0
MAX_ANSWER_BYTES = 256 * 1024
METADATA_SECONDS = 3600.0
"""The time for which the issuer's metadata are kept."""


class SignInStart(Frozen):
    """The values that the page needs to send the browser to the issuer."""

    authorization_endpoint: str
    client_id: str
    scope: str
    state: str
    code_challenge: str


class AuthorizationCode(Frozen):
    """The code and the state with which the issuer has sent the browser back."""

    code: str = Field(min_length=1, max_length=4096)
    state: str = Field(min_length=1, max_length=128)
    redirect_uri: str = Field(min_length=1, max_length=2048)


_WebAddress = Annotated[str, Field(pattern=r"^https?://")]


class _Metadata(Frozen):
    """The part of the issuer's discovery document that is used."""

    issuer: str
    authorization_endpoint: _WebAddress
    token_endpoint: _WebAddress


@dataclass(eq=False)
class OidcIssuer:
    """The issuer that `GRAPH_AGENT_OIDC_ISSUER` names. The `key` is the same in all replicas.

    A sign-in is known by the number in the browser's cookie: its state and its PKCE secret follow from this number and the key.
    So any replica can finish it, and only a client that has asked a replica for a state has one that fits to its cookie.
    """

    issuer: str
    client_id: str
    scope: str
    key: bytes = field(repr=False)
    tokens: BearerTokens
    _metadata: asyncio.Task[_Metadata] | None = None
    _metadata_expire_at: float = -math.inf

    def __post_init__(self) -> None:
        self.queue = ExchangeQueue()

    def state(self, number: str) -> str:
        """Return the state of the sign-in with a number."""
        return self._derive("state", number)

    def _derive(self, purpose: str, number: str) -> str:
        return _base64(hmac.digest(self.key, f"{purpose} {number}".encode(), "sha256"))

    async def start(self, number: str) -> SignInStart:
        """Return the address of the issuer's sign-in. Raises `ServiceError` SERVICE_UNAVAILABLE."""
        metadata = await self._current_metadata()
        return SignInStart(
            authorization_endpoint=metadata.authorization_endpoint,
            client_id=self.client_id,
            scope=self.scope,
            state=self.state(number),
            code_challenge=_base64(hashlib.sha256(self._derive("code verifier", number).encode()).digest()),
        )

    async def exchange(self, sent: AuthorizationCode, number: str) -> tuple[Caller, str]:
        """Exchange a code; return the user, and the access token or an empty text.

        Raises `ServiceError`: UNAUTHENTICATED, or SERVICE_UNAVAILABLE.
        """
        metadata = await self._current_metadata()
        form = {
            "grant_type": "authorization_code",
            "client_id": self.client_id,
            "code": sent.code,
            "code_verifier": self._derive("code verifier", number),
            "redirect_uri": sent.redirect_uri,
        }
        status, tokens = await self._ask(metadata.token_endpoint, form)
        if status != 200:
            _log.warning("the issuer refused a sign-in with status %d", status)
            raise refused()
        # Some issuers give an access token that only they can read; their ID token is a JSON Web Token in any case.
        for name in ("access_token", "id_token"):
            if isinstance(token := tokens.get(name), str) and (caller := await self.tokens.find(f"Bearer {token}")):
                own = tokens.get("access_token")
                return caller, own if isinstance(own, str) else ""
        _log.warning("the issuer's tokens are not accepted: check GRAPH_AGENT_JWT_AUDIENCE and the keys")
        raise refused()

    async def _current_metadata(self) -> _Metadata:
        # Requests that come while they are fetched wait for the same answer, however many they are.
        if self._metadata is None or (self._metadata.done() and time.monotonic() >= self._metadata_expire_at):
            self._metadata = asyncio.create_task(self._fetch_metadata())
        return await asyncio.shield(self._metadata)

    async def _fetch_metadata(self) -> _Metadata:
        status, document = await self._ask(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        try:
            metadata = _Metadata.model_validate({name: document.get(name) for name in _Metadata.model_fields})
        except ValidationError:
            metadata = None
        # OpenID Connect Discovery requires that the issuer is exactly the configured one.
        if status != 200 or metadata is None or metadata.issuer != self.issuer:
            _log.warning("the metadata of the OIDC issuer cannot be used")
            raise _unavailable()
        self._metadata_expire_at = time.monotonic() + METADATA_SECONDS
        return metadata

    async def _ask(self, url: str, form: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of an answer, which is limited in time and size."""
        try:
            # The issuer's answers name further addresses: they are as protected as its own.
            require_protected(url, allow_http=self.issuer.startswith("http:"))
            status, body = await fetch(url, seconds=FETCH_SECONDS, max_bytes=MAX_ANSWER_BYTES, form=form)
            answer = json.loads(body)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, RecursionError) as exc:
            _log.warning("the OIDC issuer does not answer as it should", exc_info=exc)
            raise _unavailable() from exc
        return status, answer if isinstance(answer, dict) else {}


def oidc_issuer(settings: Settings, authenticator: Authenticator) -> OidcIssuer | None:
    """Return the issuer that the settings name; None without one."""
    if settings.oidc_issuer is None or settings.oidc_client_id is None or settings.secret is None:
        return None
    assert authenticator.tokens is not None
    key = hmac.digest(signing_keys(settings)[0], b"sign-in", "sha256")
    return OidcIssuer(settings.oidc_issuer, settings.oidc_client_id, settings.oidc_scope, key, authenticator.tokens)


def _base64(value: bytes) -> str:
    """Return Base64 as in URLs, without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def refused() -> ServiceError:
    """Return the error of a sign-in that failed."""
    return ServiceError(ServiceErrorCode.UNAUTHENTICATED, "The sign-in was not accepted. Please try again.")


def _unavailable() -> ServiceError:
    text = "The sign-in service cannot be reached right now. Please try again later."
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text)


MAX_RUNNING = 8
MAX_RUNNING_OF_ADDRESS = 2
"""The others of an address wait for these, and take no place from other addresses meanwhile."""
QUEUE_SECONDS = 10.0


class ExchangeQueue:
    """Lets a few requests run at the same time, and only two of the same address; the others wait."""

    def __init__(self) -> None:
        self._running = asyncio.Semaphore(MAX_RUNNING)
        # Kept by the requests that run or wait, so that an address without one takes no memory.
        self._of_address: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, request: Request) -> AsyncGenerator[None]:
        """Wait for a place. Raises `ServiceError` SERVICE_UNAVAILABLE if that takes too long."""
        own = self._of_address.setdefault(_address(request), asyncio.Semaphore(MAX_RUNNING_OF_ADDRESS))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(QUEUE_SECONDS):
                    await held.enter_async_context(own)
                    await held.enter_async_context(self._running)
            except TimeoutError:
                raise busy() from None
            yield


def _address(request: Request) -> str:
    """Return the address of the client, or the network of an IPv6 address: one client has many addresses in it."""
    host = request.client.host if request.client else ""
    try:
        ip = ip_address(host)
    except ValueError:
        return host
    return str(int(ip) >> 64) if isinstance(ip, IPv6Address) and ip.ipv4_mapped is None else host

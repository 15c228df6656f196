"""Tokens with which a server acts with the rights of the signed-in user: OAuth 2.0 Token Exchange (RFC 8693).

The token of the request is sent to the issuer alone, which returns another one for the server. That one is kept in memory until
shortly before it expires.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import httpx2
from pydantic import Field

from graph_agent.models.base import Frozen
from graph_agent.net.addresses import require_protected
from graph_agent.net.user_token import token_of
from graph_agent.ports import Clock
from graph_agent.tools.identity import RENEW_BEFORE_SECONDS, invalid_header

logger = logging.getLogger(__name__)

EXCHANGE_SECONDS = 10.0
MAX_ANSWER_BYTES = 256 * 1024
MAX_TOKENS = 1_000
"""The number of tokens that are kept for a server. Beyond it the one that was used longest ago is dropped."""
DEFAULT_LIFETIME_SECONDS = 300.0
"""The lifetime of a token whose issuer does not say it."""

_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_CODES: Final = frozenset(
    (
        *("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client"),
        *("unsupported_grant_type", "invalid_scope", "invalid_target"),
    )
)
"""The error codes of RFC 6749 and RFC 8693. Every other text of an issuer may contain a secret."""


class UserTokenError(Exception):
    """There is no token for the user of a call. The text is a sentence for the user."""


class UserTokenExchange(Frozen, kw_only=False):
    """The token endpoint of an issuer, and the client that may exchange tokens there."""

    exchange: str = Field(pattern=r"^https?://\S+$")
    audience: str = Field(min_length=1)
    """The name by which the issuer knows the server."""
    client_id: str = Field(min_length=1)
    client_secret: str = Field(min_length=1, repr=False)
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class ExchangedToken:
    """The token of a user for one server."""

    token: str = field(repr=False)
    renew_at: float
    """On the monotonic clock."""


@dataclass(slots=True)
class _Place:
    """The token for one token of a user. The calls that wait for it share one request."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    found: ExchangedToken | None = None


class UserTokens:
    """Exchanges the tokens of users for those of one server, and keeps these."""

    def __init__(self, server: str, exchange: UserTokenExchange, clock: Clock, *, allow_http: bool = False) -> None:
        """`server` is its name in messages. With `allow_http` the issuer may be plain `http:` on another machine."""
        self._server = server
        self._exchange = exchange
        self._clock = clock
        self._allow_http = allow_http
        self._places: OrderedDict[tuple[str, bytes], _Place] = OrderedDict()

    async def token(self, user_id: str, *, seconds: float = EXCHANGE_SECONDS) -> ExchangedToken:
        """Return the token by which the server knows the user. Raises `UserTokenError`."""
        subject = token_of(user_id)
        if subject is None:
            raise UserTokenError(
                f"The server '{self._server}' acts with the rights of the signed-in user, and this call has no sign-in of its "
                "user; nothing was done."
            )
        # By the token too: two clients of a user may have different rights.
        key = (user_id, sha256(subject.encode()).digest())
        place = self._places.setdefault(key, _Place())
        self._places.move_to_end(key)
        while len(self._places) > MAX_TOKENS:
            self._places.popitem(last=False)
        async with place.lock:
            if place.found is None or self._clock.monotonic() >= place.found.renew_at:
                place.found = None
                place.found = await self._exchanged(subject, min(seconds, EXCHANGE_SECONDS))
                self._drop_expired()
            return place.found

    def _drop_expired(self) -> None:
        now = self._clock.monotonic()
        expired = [key for key, place in self._places.items() if place.found is not None and now >= place.found.renew_at]
        for key in expired:
            del self._places[key]

    async def _exchanged(self, subject: str, seconds: float) -> ExchangedToken:
        try:
            answer, code = await self._ask(subject, seconds)
            token = answer.get("access_token")
            if code is None and (not isinstance(token, str) or not token or invalid_header({"Authorization": token})):
                code = "its answer has no token"
            elif code is None and str(answer.get("token_type")).lower() != "bearer":
                code = "its answer has no bearer token"
            elif token == subject:
                # Passing on the token of a client is what MCP forbids.
                code = "it returned the user's own token"
        # Of no exception a text is used: it may have the URL, or an answer of the issuer.
        except TimeoutError:
            code = "it does not answer in time"
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, RecursionError):
            code = "it cannot be reached, or its answer cannot be used"
        if code is not None:
            logger.warning("the issuer of the MCP server '%s' gave no token for a user: %s", self._server, code)
            text = f"The issuer that signs users in to the server '{self._server}' gave no token ({code}); nothing was done."
            raise UserTokenError(text)
        lifetime = _lifetime(answer.get("expires_in"))
        renew_at = self._clock.monotonic() + lifetime - min(RENEW_BEFORE_SECONDS, lifetime / 2)
        return ExchangedToken(str(token), renew_at)

    async def _ask(self, subject: str, seconds: float) -> tuple[dict[str, Any], str | None]:
        """Return the answer of the issuer, and what is wrong with it."""
        # Imported here, because it delays the start, and only a server over HTTP needs it.
        from graph_agent.net.connections import fetch

        exchange = self._exchange
        require_protected(exchange.exchange, allow_http=self._allow_http)
        form = {
            "grant_type": _GRANT,
            "subject_token": subject,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
            "audience": exchange.audience,
            **({"scope": exchange.scope} if exchange.scope else {}),
        }
        request = httpx2.Request("POST", exchange.exchange)
        authorized = next(httpx2.BasicAuth(exchange.client_id, exchange.client_secret).auth_flow(request))
        headers = {"Authorization": authorized.headers["Authorization"]}
        status, body = await fetch(exchange.exchange, seconds=seconds, max_bytes=MAX_ANSWER_BYTES, form=form, headers=headers)
        answer = json.loads(body)
        answer = answer if isinstance(answer, dict) else {}
        if status == httpx2.codes.OK:
            return answer, None
        code = answer.get("error")
        return {}, code if isinstance(code, str) and code in _CODES else f"its status is {status}"


def _lifetime(seconds: Any) -> float:
    """Return the seconds for which a token is valid, by the issuer's answer. Some issuers send a text."""
    try:
        lifetime = float(seconds)
    except (TypeError, ValueError):
        return DEFAULT_LIFETIME_SECONDS
    return lifetime if math.isfinite(lifetime) and lifetime > 0 else DEFAULT_LIFETIME_SECONDS

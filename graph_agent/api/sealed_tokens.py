"""The token of a signed-in user in a cookie: sealed, so that neither the browser nor who reads its cookies can read it.

Every replica opens it, because the key is derived from the shared secret. So no server has to keep the tokens of its users.
"""

from __future__ import annotations

import base64
import hmac
import json
import logging

from cryptography.fernet import Fernet, InvalidToken

from graph_agent.net.user_token import UserToken

_log = logging.getLogger(__name__)

MAX_CHARS = 3_800
"""Browsers keep at most 4,096 bytes of a cookie with its name."""


class SealedTokens:
    """Seals and opens the tokens of users."""

    def __init__(self, secret: bytes, seconds: float) -> None:
        """A sealed token can be opened for so many seconds."""
        self._fernet = Fernet(base64.urlsafe_b64encode(hmac.digest(secret, b"sealed user token", "sha256")))
        self._seconds = int(seconds)

    def seal(self, token: UserToken) -> str | None:
        """Return a token as text for a cookie; None if it is too long for one."""
        sealed = self._fernet.encrypt(json.dumps([token.user_id, token.token]).encode()).decode()
        if len(sealed) <= MAX_CHARS:
            return sealed
        _log.warning("the token of a user is too long for a cookie: the page cannot use servers that act as their users")
        return None

    def open(self, sealed: str, user_id: str) -> UserToken | None:
        """Return the token of the user; None if `sealed` is another text, too old, or that of another user."""
        try:
            user, token = json.loads(self._fernet.decrypt(sealed, ttl=self._seconds))
        except (InvalidToken, ValueError):
            return None
        return UserToken(user_id, token) if user == user_id else None

"""The signature of a pending action: it binds the action to its user and its conversation."""

from __future__ import annotations

import hashlib
import hmac

from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import PendingAction


class Signer:
    """Signs pending actions with HMAC-SHA256 over every field, the user and the conversation."""

    def __init__(self, secret: bytes, *previous: bytes) -> None:
        """`secret` signs; signatures of the `previous` secrets are valid too."""
        self._secrets = (secret, *previous)

    def sign(self, pending: PendingAction, *, user_id: str, conversation_id: str) -> str:
        return _signature(self._secrets[0], pending, user_id, conversation_id)

    def verify(self, pending: PendingAction, *, user_id: str, conversation_id: str) -> bool:
        given = pending.signature.encode()
        expected = (_signature(secret, pending, user_id, conversation_id).encode() for secret in self._secrets)
        # Compared in constant time, so that the time of an answer does not reveal a prefix of the right signature.
        return any(hmac.compare_digest(signature, given) for signature in expected)


def _signature(secret: bytes, pending: PendingAction, user_id: str, conversation_id: str) -> str:
    content = {**pending.to_json(), "signature": "", "user_id": user_id, "conversation_id": conversation_id}
    return hmac.new(secret, canonical_json(content).encode(), hashlib.sha256).hexdigest()

"""The signature of a pending action: it binds the action to its user and its conversation."""

from __future__ import annotations

import hashlib
import hmac

from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import PendingAction


class Signer:
    """Signs pending actions with HMAC-SHA256 over every field, the user and the conversation."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, pending: PendingAction, *, user_id: str, conversation_id: str) -> str:
        content = {**pending.to_json(), "signature": "", "user_id": user_id, "conversation_id": conversation_id}
        return hmac.new(self._secret, canonical_json(content).encode(), hashlib.sha256).hexdigest()

    def verify(self, pending: PendingAction, *, user_id: str, conversation_id: str) -> bool:
        expected = self.sign(pending, user_id=user_id, conversation_id=conversation_id)
        # Compared in constant time, so that the time of an answer does not reveal a prefix of the right signature.
        return hmac.compare_digest(expected.encode(), pending.signature.encode())

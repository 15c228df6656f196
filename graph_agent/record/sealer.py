"""MACs of rows that are not in the tree yet: opening rows, pending leaves and noted removals.

With a key a MAC is an HMAC-SHA256. Without one it is a plain SHA-256, which shows accidents but which anyone can recompute.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from graph_agent.models.canonical import canonical_json

RecordKey = bytes | tuple[bytes, ...] | None
"""A key, or the current key followed by the previous ones; None for plain hashes."""

SEALED_COLUMNS = ("decision_id", "conversation_id", "user_id", "message", "header")
"""The columns of an opening row that its seal covers."""
OPENING_COLUMNS = (*SEALED_COLUMNS, "opening_seal")
"""The columns that `Sealer.accepts_opening` reads."""


def derive_record_key(secret: bytes) -> bytes:
    """Derive the key of the MACs from the secret that signs confirmations; neither reveals the other."""
    return hmac.new(secret, b"graph-agent record chain", hashlib.sha256).digest()


class Sealer:
    """MACs under the current key, or plain hashes where `key` is None. Previous keys only verify.

    Each method covers its purpose too, so that a MAC of one kind is never valid as another.
    """

    def __init__(self, key: RecordKey) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        self._key = keys[0]
        self.all: tuple[Sealer, ...] = (self, *map(Sealer, keys[1:]))
        """The sealers of all keys, the current one first."""

    def compute(self, purpose: str, *facts: str | int, text: str = "") -> str:
        """Return the MAC of `facts` and `text` for one `purpose`, in hex."""
        # A record from a model may contain lone surrogates, which plain UTF-8 cannot encode.
        sealed = f"{canonical_json([purpose, *facts])}\n{text}".encode("utf-8", "surrogatepass")
        if self._key is None:
            return hashlib.sha256(sealed).hexdigest()
        return hmac.new(self._key, sealed, hashlib.sha256).hexdigest()

    def accepts(self, mac: str | None, purpose: str, *facts: str | int, text: str = "") -> bool:
        """True if `mac` is the one that `compute` returns under any key."""
        return any(mac == sealer.compute(purpose, *facts, text=text) for sealer in self.all)

    def opening(self, row: Mapping[str, Any]) -> str:
        """Return the seal of an opening row: the statement that a holder of the key opened this decision with this header."""
        *facts, header = (row[name] for name in SEALED_COLUMNS)
        return self.compute("opening", *facts, text=header or "")

    def accepts_opening(self, row: Mapping[str, Any]) -> bool:
        """True if an opening row has its seal under any key."""
        return any(row["opening_seal"] == sealer.opening(row) for sealer in self.all)

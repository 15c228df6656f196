"""MACs of rows that are not in the tree yet: opening rows, pending leaves and noted removals.

With a key a MAC is an HMAC-SHA256. Without one it is a plain SHA-256, which shows accidents but which anyone can recompute.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from graph_agent.models.canonical import canonical_json

RecordKey = bytes | tuple[bytes, ...] | None
"""A key, or the current key followed by the previous ones; None for plain hashes."""

SEALED_COLUMNS = ("decision_id", "conversation_id", "user_id", "message", "header")
"""The columns of an opening row that its seal covers."""
OPENING_COLUMNS = (*SEALED_COLUMNS, "opening_seal")
"""The columns that `Sealer.has_sealed` reads."""


def derive_record_key(secret: bytes) -> bytes:
    """Derive the key of the MACs from the secret that signs confirmations; neither reveals the other."""
    return hmac.new(secret, b"graph-agent record chain", sha256).digest()


class Sealer:
    """MACs under the current key and the previous ones, or plain hashes where a key is None. Only the current one seals.

    Each MAC covers its purpose too, so that a MAC of one kind is never valid as another.
    """

    def __init__(self, key: RecordKey) -> None:
        self._keys = key if isinstance(key, tuple) else (key,)

    def macs(self, purpose: str, *facts: str | int, text: str = "") -> list[str]:
        """Return the MAC of `facts` and `text` for one `purpose` under each key, in hex, that of the current key first."""
        # A record from a model may contain lone surrogates, which plain UTF-8 cannot encode.
        sealed = f"{canonical_json([purpose, *facts])}\n{text}".encode("utf-8", "surrogatepass")
        return [(sha256(sealed) if key is None else hmac.new(key, sealed, sha256)).hexdigest() for key in self._keys]

    def opening_seals(self, row: Mapping[str, Any]) -> list[str]:
        """Return the seals of an opening row: the statement that a holder of the key opened this decision with this header."""
        *facts, header = (row[name] for name in SEALED_COLUMNS)
        return self.macs("opening", *facts, text=header or "")

    def has_sealed(self, row: Mapping[str, Any]) -> bool:
        """True if an opening row with its `OPENING_COLUMNS` has its seal."""
        return row["opening_seal"] in self.opening_seals(row)

"""Leaves: the commitment to a row, and the pending row that waits until it is in the tree.

graph-agent/leaf/v1
decision
<base64 of SHA-256(salt, canonical text)>
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert

from graph_agent.db.prepared import PreparedStatement
from graph_agent.record.sealer import Sealer
from graph_agent.record.tree.tables import LeafKind, record_pending

SALT_BYTES = 32
_PENDING = PreparedStatement(insert(record_pending))


class PendingLeaf(NamedTuple):
    """The pending row of a new leaf, and the salt that is stored with what the leaf commits to."""

    salt: str
    row: dict[str, str | bytes]

    def store(self, connection: Connection) -> None:
        """Insert the pending row, in the transaction that stores what the leaf commits to."""
        _PENDING.run(connection, self.row)


def new_leaf(kind: LeafKind, item: str, text: str, sealer: Sealer) -> PendingLeaf:
    """Return the pending leaf that commits to the canonical `text` of the row with the id `item`."""
    salt = base64.b64encode(secrets.token_bytes(SALT_BYTES)).decode()
    committed = commitment(salt, text)
    return PendingLeaf(
        salt, {"kind": kind, "item": item, "commitment": committed, "mac": pending_mac(kind, item, committed, sealer)}
    )


def commitment(salt: str | None, text: str) -> bytes:
    """Return the commitment to `text`; without a valid salt one that is in no leaf."""
    try:
        raw = base64.b64decode(salt or "", validate=True)
    except ValueError:
        raw = b""
    # A record from a model may contain lone surrogates, which plain UTF-8 cannot encode.
    return hashlib.sha256(raw + text.encode("utf-8", "surrogatepass")).digest() if len(raw) == SALT_BYTES else b""


def leaf_entry(kind: str, committed: bytes) -> bytes:
    """Return the bytes of a leaf."""
    return f"graph-agent/leaf/v1\n{kind}\n{base64.b64encode(committed).decode()}\n".encode()


def is_written_by_us(row: Any, sealer: Sealer) -> bool:
    """True if a pending row has a valid MAC."""
    # SQLite stores values of any type in any column.
    return isinstance(row.commitment, bytes) and sealer.accepts(
        row.mac, lambda one: pending_mac(row.kind, row.item, row.commitment, one)
    )


def pending_mac(kind: str, item: str, committed: bytes, sealer: Sealer) -> str:
    """Return the MAC of a pending row."""
    return sealer.compute("pending", kind, item, committed.hex())

"""Leaves: the commitment to a row, the pending row that waits until it is in the tree, and the MAC that says who wrote it.

graph-agent/leaf/v1
decision
<base64 of SHA-256(salt, canonical text)>

Opening rows, operations and noted removals, which are not in the tree, have a MAC too. With a key a MAC is an HMAC-SHA256.
Without one it is a plain SHA-256, which shows accidents but which anyone can recompute.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable, Container, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection, Dialect, Table, TableClause, insert

from graph_agent.db import PreparedStatement
from graph_agent.models.canonical import canonical_json
from graph_agent.record.tree.tables import LeafKind, record_pending

RecordKey = bytes | tuple[bytes, ...] | None
"""A key, or the current key followed by the previous ones; None for plain hashes."""

SEALED_COLUMNS = ("decision_id", "conversation_id", "user_id", "message", "header")
"""The columns of an opening row that its seal covers."""
OPENING_COLUMNS = (*SEALED_COLUMNS, "opening_seal")
"""The columns that `Sealer.has_sealed` reads."""

SALT_BYTES = 32
_PENDING = PreparedStatement(insert(record_pending))


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
    mac = sealer.macs("pending", kind, item, committed.hex())[0]
    return PendingLeaf(salt, {"kind": kind, "item": item, "commitment": committed, "mac": mac})


def insert_leaf_row(connection: Connection, kind: LeafKind, table: Table, row: Mapping[str, Any], sealer: Sealer) -> None:
    """Insert a report with its pending leaf. Columns that `row` leaves out are NULL."""
    stored = {name: encode(row.get(name)) for name, _, encode in columns_of(connection.dialect, table)}
    leaf = new_leaf(kind, row[table.columns.keys()[0]], row_text(table, stored), sealer)
    connection.execute(insert(table), {**row, "salt": leaf.salt})
    leaf.store(connection)


def row_text(table: TableClause, stored: Mapping[Any, Any], without: Container[str] = ("salt",)) -> str:
    """Return the text that the leaf or MAC of a row covers; its values are as the driver stores them."""
    values = [_portable(stored[column.name]) for column in table.columns if column.name not in without]
    return canonical_json([table.name, *values])


# Cached: a verification asks for the same three tables once for every decision.
@lru_cache(maxsize=16)
def columns_of(dialect: Dialect, table: Table) -> list[tuple[str, int, Callable[[Any], Any]]]:
    """Return, for each column, its name, its position and the function that converts a value as the driver stores it."""
    return [
        (column.name, position, column.type.dialect_impl(dialect).bind_processor(dialect) or (lambda value: value))
        for position, column in enumerate(table.columns)
    ]


def commitment(salt: str | None, text: str) -> bytes:
    """Return the commitment to `text`; without a valid salt one that is in no leaf."""
    try:
        raw = base64.b64decode(salt or "", validate=True)
    except ValueError:
        raw = b""
    # A record from a model may contain lone surrogates, which plain UTF-8 cannot encode.
    return sha256(raw + text.encode("utf-8", "surrogatepass")).digest() if len(raw) == SALT_BYTES else b""


def leaf_entry(kind: str, committed: bytes) -> bytes:
    """Return the bytes of a leaf."""
    return f"graph-agent/leaf/v1\n{kind}\n{base64.b64encode(committed).decode()}\n".encode()


def is_written_by_us(row: Any, sealer: Sealer) -> bool:
    """True if a pending row has a valid MAC."""
    # SQLite stores values of any type in any column.
    is_bytes = isinstance(row.commitment, bytes)
    return is_bytes and row.mac in sealer.macs("pending", row.kind, row.item, row.commitment.hex())


def _portable(value: Any) -> Any:
    """Return a time and a boolean as SQLite stores them, so that a row keeps its commitment when it is copied."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return int(value) if isinstance(value, bool) else value

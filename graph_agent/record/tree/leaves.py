"""Leaves: the commitment to a row, and the pending row that waits until it is in the tree.

graph-agent/leaf/v1
decision
<base64 of SHA-256(salt, canonical text)>
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Dialect, Table, TableClause, insert

from graph_agent.db.prepared import PreparedStatement
from graph_agent.models.canonical import canonical_json
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
    mac = sealer.macs("pending", kind, item, committed.hex())[0]
    return PendingLeaf(salt, {"kind": kind, "item": item, "commitment": committed, "mac": mac})


def insert_leaf_row(connection: Connection, kind: LeafKind, table: Table, row: Mapping[str, Any], sealer: Sealer) -> None:
    """Insert a baseline or a report with its pending leaf. Columns that `row` leaves out are NULL."""
    stored = {name: encode(row.get(name)) for name, _, encode in columns_of(connection.dialect, table)}
    leaf = new_leaf(kind, row[table.columns.keys()[0]], row_text(table, stored), sealer)
    connection.execute(insert(table), {**row, "salt": leaf.salt})
    leaf.store(connection)


def row_text(table: TableClause, stored: Mapping[Any, Any]) -> str:
    """Return the text that the leaf of a row commits to; its values are as the driver stores them."""
    values = [_portable(stored[column.name]) for column in table.columns if column.name != "salt"]
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
    return hashlib.sha256(raw + text.encode("utf-8", "surrogatepass")).digest() if len(raw) == SALT_BYTES else b""


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

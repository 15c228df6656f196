"""Rows that are leaves of the tree beside decisions: baselines, and reports with settlements."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Table, TableClause, insert

from graph_agent.models.canonical import canonical_json
from graph_agent.record.sealer import Sealer
from graph_agent.record.tamper.row_comparison import columns_of
from graph_agent.record.tree.leaves import new_leaf
from graph_agent.record.tree.tables import LeafKind


def insert_leaf_row(connection: Connection, kind: LeafKind, table: Table, row: Mapping[str, Any], sealer: Sealer) -> None:
    """Insert a row with its pending leaf. Columns that it leaves out are NULL."""
    stored = {name: encode(row.get(name)) for name, _, encode in columns_of(connection.dialect, table)}
    leaf = new_leaf(kind, row[table.columns.keys()[0]], row_text(table, stored), sealer)
    connection.execute(insert(table), {**row, "salt": leaf.salt})
    leaf.store(connection)


def row_text(table: TableClause, stored: Mapping[Any, Any]) -> str:
    """Return the text that the leaf of a row commits to; its values are as the driver stores them."""
    values = [_portable(stored[column.name]) for column in table.columns if column.name != "salt"]
    return canonical_json([table.name, *values])


def _portable(value: Any) -> Any:
    """Return a time and a boolean as SQLite stores them, so that a row keeps its commitment when it is copied."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return int(value) if isinstance(value, bool) else value

"""Seals of rows that are in no chain: baselines, and reports with settlements and the prune horizon."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Table, TableClause

from graph_agent.models.canonical import canonical_json
from graph_agent.record.chain import Sealer
from graph_agent.record.tamper.row_comparison import encoders


def with_seal(connection: Connection, table: Table, row: Mapping[str, Any], sealer: Sealer) -> dict[str, Any]:
    """Return `row` with its seal. Columns that it leaves out are NULL."""
    encode = encoders(connection.dialect, table)
    stored = {name: encode[name](row.get(name)) for name in encode}
    return {**row, "seal": row_seal(table, stored, sealer)}


def row_seal(table: TableClause, stored: Mapping[Any, Any], sealer: Sealer) -> str:
    """Return the seal of a row, whose values are as the driver stores them; it is the same on every database."""
    values = [_portable(stored[column.name]) for column in table.columns if column.name != "seal"]
    return sealer.compute("row", table.name, text=canonical_json(values))


def _portable(value: Any) -> Any:
    """Return a time and a boolean as SQLite stores them, so that a row keeps its seal when it is copied."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return int(value) if isinstance(value, bool) else value

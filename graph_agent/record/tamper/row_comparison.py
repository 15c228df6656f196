"""The comparison of stored rows with the rows that a record projects to.

Both sides are compared as the driver stores them. A column that cannot be decoded any more is then a difference like any other,
instead of an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Select, Table, select, type_coerce
from sqlalchemy.types import NullType


def select_raw(table: Table) -> Select[*tuple[Any, ...]]:
    """Return a SELECT of every column of `table` as the driver returns it, without SQLAlchemy's decoding."""
    return select(*(type_coerce(column, NullType()).label(column.name) for column in table.columns))


def raw_rows_by_decision(connection: Connection, table: Table, decision_ids: Sequence[str]) -> dict[str, list[Any]]:
    """Return the raw rows of `table` that belong to each of these decisions, in their sequence."""
    rows: dict[str, list[Any]] = {}
    query = select_raw(table).where(table.c.decision_id.in_(decision_ids))
    for row in connection.execute(query.order_by(table.c.decision_id, table.c.sequence)):
        rows.setdefault(row.decision_id, []).append(row)
    return rows


def row_differences(
    dialect: Dialect, table: Table, expected: Sequence[Mapping[str, Any]], stored: Sequence[Any]
) -> Iterator[str]:
    """Describe each difference between the rows of one decision that its record implies and those that `table` has."""
    layout = columns_of(dialect, table)
    expected_rows = {row.get("sequence"): row for row in expected}
    stored_rows = {row.sequence if "sequence" in table.columns else None: row for row in stored}
    for sequence in [*expected_rows, *(sequence for sequence in stored_rows if sequence not in expected_rows)]:
        name = table.name if sequence is None else f"{table.name} {sequence}"
        if sequence not in stored_rows:
            yield f"{name} is missing"
        elif sequence not in expected_rows:
            yield f"{name} is not in the record"
        else:
            found, wanted = stored_rows[sequence], expected_rows[sequence]
            for column, position, encode in layout:
                if column in wanted and found[position] != encode(wanted[column]):
                    yield f"{name}: the column {column} differs from the record"


# Cached: a verification asks for the same three tables once for every decision.
@lru_cache(maxsize=16)
def columns_of(dialect: Dialect, table: Table) -> list[tuple[str, int, Callable[[Any], Any]]]:
    """Return, for each column, its name, its position and the function that converts a value as the driver stores it."""
    return [
        (column.name, position, column.type.dialect_impl(dialect).bind_processor(dialect) or _unchanged)
        for position, column in enumerate(table.columns)
    ]


def _unchanged(value: Any) -> Any:
    return value

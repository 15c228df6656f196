"""The table of operations that a server keeps beside its own tables."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import CheckConstraint, Column, MetaData, String, Table, Text

from graph_agent.db.types import UtcDateTime, enum_by_value


class OperationState(StrEnum):
    """DONE: the effect was committed with the stored result. VOID: it did not take place and never will."""

    DONE = "DONE"
    VOID = "VOID"


def operations_table(metadata: MetaData, name: str = "operations") -> Table:
    """Add the table of operations to `metadata`, so that it is created in the database of the effects."""
    return Table(
        name,
        metadata,
        Column("key", String(255), primary_key=True),
        Column("user_id", String(255), nullable=False),
        Column("tool_name", String(64), nullable=False),
        Column("request_digest", String(64), nullable=False),
        Column("state", enum_by_value(OperationState, "state"), nullable=False),
        # The exact text of the answer, so that a repeated call returns the same bytes.
        Column("result", Text),
        Column("created_at", UtcDateTime, nullable=False),
        CheckConstraint("(state = 'DONE') = (result IS NOT NULL)", name="result_iff_done"),
    )

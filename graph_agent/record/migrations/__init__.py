"""Creation of the tables of the record, on PostgreSQL with their partitions."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection

from graph_agent.record.partitions import CREATED_AHEAD, create_days, create_outer_partitions
from graph_agent.record.tree.tables import tree_leaves

metadata = tree_leaves.metadata
"""The tables of the record, with those of its tree."""


def create(connection: Connection) -> None:
    """Create all tables, and the partitions until the sweeper creates more of them."""
    metadata.create_all(connection)
    if connection.dialect.name == "postgresql":
        create_outer_partitions(connection)
        now = datetime.now(UTC)
        create_days(connection, now, now + CREATED_AHEAD)

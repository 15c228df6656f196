"""A new database and an upgraded one have the tables that the models declare."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from graph_agent.db import Database, migrate
from graph_agent.record.tree.tables import tree_leaves

metadata = tree_leaves.metadata
ADDED = (*(name for name in metadata.tables if name.startswith("tree_")), "metrics_hours", "call_operations")
FORMER = (
    *(f"DROP TABLE {name}" for name in (*ADDED, "record_leaves", "record_pending", "record_removals")),
    *(f"ALTER TABLE {name} DROP COLUMN salt" for name in ("decision_logs", "baselines", "reports")),
    *(f"ALTER TABLE {name} ADD COLUMN seal VARCHAR(64)" for name in ("baselines", "reports")),
    "CREATE TABLE record_chains (chain VARCHAR(36) PRIMARY KEY, started_at VARCHAR(32), cut_n INTEGER)",
    "CREATE TABLE record_links (chain VARCHAR(36), n INTEGER, decision_id VARCHAR(64), cut VARCHAR(64))",
    "UPDATE audit_version SET version_num = '0009'",
)
"""What makes a database of revision 0009 out of a new one."""
LATER = tuple("DROP INDEX ix_call_operations_uses" if text == "DROP TABLE call_operations" else text for text in FORMER)
"""The same for a revision that has the operations already."""


@pytest.mark.parametrize("former", [(), FORMER, LATER], ids=["new", "upgraded", "upgraded later"])
def test_the_tables_are_exactly_those_that_the_models_declare(database: Database, former: tuple[str, ...]) -> None:
    migrate(database, "graph_agent.record")
    database.write_now(lambda connection: [connection.exec_driver_sql(statement) for statement in former].clear())
    migrate(database, "graph_agent.record")

    def differences(connection: Connection) -> list[Any]:
        with warnings.catch_warnings():
            # Alembic warns about index features that it cannot compare.
            warnings.simplefilter("ignore")
            context = MigrationContext.configure(
                connection, opts={"include_name": _is_declared, "include_object": _is_compared}
            )
            return list(compare_metadata(context, metadata))

    assert database.read_now(differences) == []


def _is_compared(_item: Any, _name: str | None, kind: str, *_others: Any) -> bool:
    # Alembic does not know that the foreign keys are declared for SQLite only.
    return kind != "foreign_key_constraint"


def _is_declared(name: str | None, kind: str, _parents: Any) -> bool:
    return kind != "table" or name in metadata.tables

"""The migrations create exactly the declared tables."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, inspect

from graph_agent.db import Database, migrate
from graph_agent.task_server.store import metadata


def test_the_migrated_tables_match_the_declared_tables(database: Database) -> None:
    migrate(database, "graph_agent.task_server")

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"version_table": "task_server_schema"})
        return list(compare_metadata(context, metadata))

    assert database.read_now(differences) == []


def test_the_migrated_check_constraints_match_the_declared_ones(database: Database) -> None:
    migrate(database, "graph_agent.task_server")

    def checks(connection: Connection) -> dict[str, set[str | None]]:
        inspector = inspect(connection)
        return {table: {check["name"] for check in inspector.get_check_constraints(table)} for table in metadata.tables}

    assert database.read_now(checks) == {
        name: {str(check.name) for check in table.constraints if isinstance(check, CheckConstraint)}
        for name, table in metadata.tables.items()
    }

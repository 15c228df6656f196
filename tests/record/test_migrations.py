"""A new database has the tables that the models declare."""

from __future__ import annotations

import warnings
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from graph_agent.db import Database, migrate
from graph_agent.record.migrations import metadata


def test_the_tables_are_exactly_those_that_the_models_declare(database: Database) -> None:
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


def _is_compared(_item: Any, name: str | None, kind: str, *_others: Any) -> bool:
    # Alembic does not know that the foreign keys are declared for SQLite only, and the index of words for PostgreSQL only.
    return kind != "foreign_key_constraint" and name != "ix_decision_logs_words"


def _is_declared(name: str | None, kind: str, _parents: Any) -> bool:
    return kind != "table" or name in metadata.tables

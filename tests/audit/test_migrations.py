"""The migrations and the tables say the same."""

from __future__ import annotations

import warnings
from typing import Any

from sqlalchemy import Connection

from graph_agent.record.chain_tables import Base
from graph_agent.db import Database, migrate


def test_the_migrations_build_exactly_the_tables_that_the_code_describes(database: Database) -> None:
    migrate(database, "graph_agent.record")

    def differences(connection: Connection) -> list[Any]:
        from alembic.autogenerate import compare_metadata
        from alembic.migration import MigrationContext

        with warnings.catch_warnings():
            # It says aloud what it cannot compare.
            warnings.simplefilter("ignore")
            context = MigrationContext.configure(connection, opts={"include_name": _ours})
            return list(compare_metadata(context, Base.metadata))

    assert database.read_now(differences) == []


def _ours(name: str | None, kind: str, _parents: Any) -> bool:
    return kind != "table" or name in Base.metadata.tables

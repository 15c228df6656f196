"""A new database has the declared tables."""

from __future__ import annotations

from sqlalchemy import Connection, inspect

from graph_agent.chat.conversations.tables import metadata
from graph_agent.db import Database, migrate


def _shape(connection: Connection, table: str) -> object:
    found = inspect(connection)
    return (
        sorted((column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(table)),
        found.get_pk_constraint(table)["constrained_columns"],
        sorted((index["name"] or "", index["column_names"], bool(index["unique"])) for index in found.get_indexes(table)),
        sorted((key["constrained_columns"], key["referred_table"]) for key in found.get_foreign_keys(table)),
        sorted(str(check["name"]) for check in found.get_check_constraints(table)),
    )


def test_a_new_database_is_what_the_tables_declare(database: Database) -> None:
    migrate(database, "graph_agent.chat.conversations")
    tables = sorted(metadata.tables)
    created = database.read_now(lambda connection: {name: _shape(connection, name) for name in tables})

    def declared(connection: Connection) -> dict[str, object]:
        metadata.drop_all(connection)
        metadata.create_all(connection)
        return {name: _shape(connection, name) for name in tables}

    assert created == database.write_now(declared)

"""A new database and an upgraded one have the declared tables."""

from __future__ import annotations

import pytest
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


FORMER = (
    "ALTER TABLE turns DROP COLUMN stopped",
    "ALTER TABLE turns ADD COLUMN answers TEXT",
    "ALTER TABLE messages DROP COLUMN authors",
    "UPDATE conversations_version SET version_num = '0003'",
)
"""What makes a database of revision 0003 out of a new one."""


@pytest.mark.parametrize("former", [(), FORMER], ids=["new", "upgraded"])
def test_a_migrated_database_is_what_the_tables_declare(database: Database, former: tuple[str, ...]) -> None:
    migrate(database, "graph_agent.chat.conversations")
    database.write_now(lambda connection: [connection.exec_driver_sql(statement) for statement in former].clear())
    migrate(database, "graph_agent.chat.conversations")
    tables = sorted(metadata.tables)
    migrated = database.read_now(lambda connection: {name: _shape(connection, name) for name in tables})

    def declared(connection: Connection) -> dict[str, object]:
        metadata.drop_all(connection)
        metadata.create_all(connection)
        return {name: _shape(connection, name) for name in tables}

    assert migrated == database.write_now(declared)

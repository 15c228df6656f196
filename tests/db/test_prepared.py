"""Prepared statements do what SQLAlchemy does with the same statement, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Integer, Table, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, StatementError

from graph_agent.db import (
    Database,
    JsonText,
    PreparedStatement,
    UtcDateTime,
    UuidText,
    enum_by_value,
    insert_or_replace,
    new_metadata,
)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


metadata = new_metadata()
things = Table(
    "things",
    metadata,
    Column("id", UuidText, primary_key=True),
    Column("colour", enum_by_value(Colour, "colour"), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("data", JsonText),
    Column("size", Integer),
)
AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
RED: dict[str, Any] = {"id": "a", "colour": Colour.RED, "at": AT, "data": {"z": [1], "a": "ü"}, "size": 3}
BLUE: dict[str, Any] = {"id": "b", "colour": Colour.BLUE, "at": AT, "data": None, "size": None}

INSERT = PreparedStatement(insert(things))
GET = PreparedStatement(select(things).where(things.c.id == bindparam("wanted"), things.c.colour == Colour.RED))
DELETE = PreparedStatement(delete(things).where(things.c.colour == bindparam("unwanted")))


@pytest.fixture
def database(database: Database) -> Database:
    database.write_now(metadata.create_all)
    return database


def stored(database: Database) -> list[dict[str, Any]]:
    query = select(things).order_by(things.c.id)
    return database.read_now(lambda connection: [dict(row) for row in connection.execute(query).mappings()])


def test_values_are_converted_by_the_types_of_their_columns(database: Database) -> None:
    def insert_and_get(connection: Connection) -> Any:
        INSERT.run_for_each(connection, [])
        INSERT.run_for_each(connection, [RED, BLUE])
        return GET.first(connection, {"wanted": "a"}), GET.first(connection, {"wanted": "b"})

    found, other = database.write_now(insert_and_get)
    assert found._asdict() == RED
    assert other is None
    assert stored(database) == [RED, BLUE]


def test_each_set_of_names_writes_its_own_columns(database: Database) -> None:
    change = PreparedStatement(update(things).where(things.c.id == bindparam("wanted")))

    def change_and_delete(connection: Connection) -> list[int]:
        INSERT.run(connection, {"id": "a", "colour": Colour.RED, "at": AT})
        INSERT.run(connection, BLUE)
        return [
            change.run(connection, {"wanted": "a", "size": 7}),
            change.run(connection, {"wanted": "a", "data": [1]}),
            change.run(connection, {"wanted": "nothing", "size": 8}),
            DELETE.run(connection, {"unwanted": Colour.BLUE}),
        ]

    assert database.write_now(change_and_delete) == [1, 1, 0, 1]
    assert stored(database) == [RED | {"size": 7, "data": [1]}]


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (RED, IntegrityError),
        (BLUE | {"colour": "green"}, StatementError),
        (BLUE | {"at": AT.replace(tzinfo=None)}, StatementError),
    ],
    ids=["taken", "not a colour", "no time zone"],
)
def test_a_row_that_cannot_be_stored_fails_alone(database: Database, values: dict[str, Any], error: type[Exception]) -> None:
    database.write_now(lambda connection: INSERT.run(connection, RED))
    with pytest.raises(error):
        database.write_now(lambda connection: INSERT.run(connection, values))
    assert stored(database) == [RED]


def test_a_value_that_is_missing_is_an_error_and_not_null(database: Database) -> None:
    database.write_now(lambda connection: INSERT.run(connection, RED))
    with pytest.raises(StatementError):
        database.write_now(lambda connection: DELETE.run(connection, {}))
    assert stored(database) == [RED]


def test_a_row_is_replaced_only_if_it_differs(database: Database) -> None:
    # A row that is written gets a new version on PostgreSQL; SQLite counts it as a change.
    version = "SELECT total_changes()" if database.dialect == "sqlite" else "SELECT sum(xmin::text::bigint) FROM things"

    def replace(*rows: dict[str, Any]) -> bool:
        def is_replaced(connection: Connection) -> bool:
            before = connection.exec_driver_sql(version).scalar()
            insert_or_replace(connection, things, list(rows))
            return bool(connection.exec_driver_sql(version).scalar() != before)

        return database.write_now(is_replaced)

    assert replace(RED, BLUE)
    assert not replace(RED, BLUE)
    assert replace(RED | {"data": None}, BLUE | {"size": 1})
    assert stored(database) == [RED | {"data": None}, BLUE | {"size": 1}]

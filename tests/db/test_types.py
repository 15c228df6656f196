"""The column types behave the same on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum

import pytest
from sqlalchemy import Column, Integer, Table, insert, select
from sqlalchemy.exc import IntegrityError, StatementError

from graph_agent.db import Database, JsonText, UtcDateTime, UuidText, enum_by_value, new_metadata


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


metadata = new_metadata()
things = Table(
    "things",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", UuidText),
    Column("at", UtcDateTime),
    Column("record", JsonText),
    Column("colour", enum_by_value(Colour, "colour")),
)


@pytest.fixture
def things_database(database: Database) -> Database:
    database.write_now(metadata.create_all)
    return database


async def stored(database: Database, **values: object) -> dict[str, object]:
    await database.write(lambda connection: connection.execute(insert(things), values).close())
    return await database.read(lambda connection: dict(connection.execute(select(things)).mappings().one()))


async def test_values_are_stored_and_read_back_unchanged(things_database: Database) -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    record = {"b": [1, None, "ü\x00\ud800"], "a": {"deep": 1.5}}
    row = await stored(things_database, number=1, id="0" * 36, at=at, record=record, colour=Colour.BLUE)
    assert row == {"number": 1, "id": "0" * 36, "at": at, "record": record, "colour": Colour.BLUE}
    assert isinstance(row["at"], datetime)
    assert row["at"].tzinfo is UTC


async def test_the_time_of_the_database_is_that_of_its_host_and_is_compared_in_sql(things_database: Database) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)  # SQLite's clock has milliseconds
    await stored(things_database, number=1)
    now = things_database.time()
    await things_database.write(lambda connection: connection.execute(things.update().values(at=now)).close())
    row = await things_database.read(lambda connection: connection.execute(select(things.c.at)).one())
    assert before <= row.at <= datetime.now(UTC)
    later, earlier = things_database.time(timedelta(hours=1)), things_database.time(timedelta(hours=-1))
    between = select(things.c.at > earlier, things.c.at < later, things.c.at < earlier)
    found = await things_database.read(lambda connection: connection.execute(between).one())
    assert [bool(value) for value in found] == [True, True, False]


async def test_none_is_stored_as_null(things_database: Database) -> None:
    row = await stored(things_database, number=1)
    assert row == {"number": 1, "id": None, "at": None, "record": None, "colour": None}


async def test_times_sort_and_compare_chronologically(things_database: Database) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    times = [start + timedelta(microseconds=step) for step in (0, 1, 10, 999_999, 1_000_000, 86_400_000_000)]
    rows = [{"number": number, "at": at} for number, at in enumerate(reversed(times))]
    await things_database.write(lambda connection: connection.execute(insert(things), rows).close())
    found = await things_database.read(
        lambda connection: (
            connection.execute(select(things.c.at).where(things.c.at > start).order_by(things.c.at)).scalars().all()
        )
    )
    assert found == times[1:]


async def test_equal_json_is_equal_text(things_database: Database) -> None:
    rows = [{"number": 1, "record": {"a": 1, "b": 2}}, {"number": 2, "record": {"b": 2, "a": 1}}]
    await things_database.write(lambda connection: connection.execute(insert(things), rows).close())
    texts = await things_database.read(
        lambda connection: connection.exec_driver_sql("SELECT record FROM things").scalars().all()
    )
    assert texts == ['{"a":1,"b":2}'] * 2


@pytest.mark.parametrize("values", [{"at": datetime(2026, 3, 1)}, {"record": {"n": float("nan")}}, {"colour": "green"}])  # noqa: DTZ001 - a naive time is the point
async def test_values_that_would_change_in_storage_are_rejected(things_database: Database, values: dict[str, object]) -> None:
    with pytest.raises(StatementError):
        await stored(things_database, number=1, **values)


async def test_the_database_rejects_a_value_outside_the_enum(things_database: Database) -> None:
    with pytest.raises(IntegrityError):
        await things_database.write(
            lambda connection: connection.exec_driver_sql("INSERT INTO things (number, colour) VALUES (1, 'green')").close()
        )

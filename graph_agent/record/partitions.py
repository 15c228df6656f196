"""Partitions of the large tables on PostgreSQL: one for each day, so that retention drops tables instead of deleting rows.

The ids of decisions sort by their time (`clock.uuid7`), so a range of ids is a range of time. Therefore the primary keys stay
as they are, and a row is found by its id in one partition. Ids without a time, such as those that an application gives,
are in partitions before and after the days. What fits nowhere else is in the default partition, which stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from functools import partial

from sqlalchemy import ColumnElement, Connection, and_, exists, func, select, true

from graph_agent.clock import uuid7
from graph_agent.models.record import RecordStatus
from graph_agent.record.metrics_hours import forget_hours
from graph_agent.record.tables import PARTITIONED, decision_logs

CREATED_AHEAD = timedelta(days=7)

_DAY = timedelta(days=1)
_FIRST_DAY, _LAST_DAY = date(2026, 1, 1), date(2100, 1, 1)
# A change of partitions waits for the readers, and others wait behind it meanwhile: give up soon, and try again later.
_LOCK_BRIEFLY = "SET LOCAL lock_timeout = 500"


def create_outer_partitions(connection: Connection) -> None:
    """Create the partitions for ids that are not those of a day. The default partition was created with its table."""
    for table in PARTITIONED:
        ranges = {
            "before": f"FOR VALUES FROM (MINVALUE) TO ('{_lowest_id(_FIRST_DAY)}')",
            "after": f"FOR VALUES FROM ('{_lowest_id(_LAST_DAY)}') TO (MAXVALUE)",
        }
        for name, values in ranges.items():
            connection.exec_driver_sql(f"CREATE TABLE {table.name}_{name} PARTITION OF {table.name} {values}").close()


def create_days(connection: Connection, first: datetime, last: datetime) -> int:
    """Create the partitions of these days that do not exist yet; return how many were created."""
    if connection.dialect.name != "postgresql":
        return 0
    wanted = {(first + _DAY * number).astimezone(UTC).date() for number in range((last - first) // _DAY + 1)}
    missing = sorted(wanted - set(_days(connection)))
    if not missing:
        return 0
    connection.exec_driver_sql(_LOCK_BRIEFLY).close()
    return sum(_create_day(connection, day) for day in missing)


def drop_day(
    connection: Connection, before: datetime, note_removed: Callable[[Connection, ColumnElement[bool]], bool]
) -> int | None:
    """Drop the oldest day that contains only closed decisions from before this time.

    `note_removed` notes that the decisions of a condition are removed; the day is kept if it returns False. Return the number
    of its decisions, None if there is no such day.
    """
    for day in _days(connection):
        if _start(day) + _DAY > before:
            return None
        connection.exec_driver_sql(_LOCK_BRIEFLY).close()
        # Readers continue; a row that is inserted after the check would be lost.
        connection.exec_driver_sql(f"LOCK TABLE {_names(day)} IN SHARE MODE").close()
        of_day = _within(day, day + _DAY, decision_logs.c.decision_id)
        still_open = exists().where(of_day, decision_logs.c.status == RecordStatus.PENDING)
        found = select(func.count(), func.max(decision_logs.c.created_at), still_open).where(of_day)
        count, newest, is_open = connection.execute(found).one()
        if is_open or (newest is not None and newest >= before):
            continue
        if count:
            if not note_removed(connection, of_day):
                continue
            forget_hours(connection, partial(_within, day, day + _DAY))
        connection.exec_driver_sql(f"DROP TABLE {_names(day)}").close()
        return int(count)
    return None


def outside_of_kept_days(connection: Connection, before: datetime) -> ColumnElement[bool]:
    """Return the condition for decisions that are in no partition of a day that ends after this time."""
    kept = [day for day in _days(connection) if _start(day) + _DAY > before]
    return ~_within(kept[0], kept[-1] + _DAY, decision_logs.c.decision_id) if kept else true()


def _days(connection: Connection) -> list[date]:
    """Return the days that have partitions, oldest first."""
    if connection.dialect.name != "postgresql":
        return []
    children = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass('decision_logs')"
    names = (name.rpartition("_")[2] for name in connection.exec_driver_sql(children).scalars())
    return sorted(date.fromisoformat(name) for name in names if name.isdigit())


def _create_day(connection: Connection, day: date) -> bool:
    defaults = ", ".join(f"{table.name}_default" for table in PARTITIONED)
    # The lock that ATTACH takes at the end, taken first: two processes that raise a weaker one to it would deadlock.
    connection.exec_driver_sql(f"LOCK TABLE {defaults} IN ACCESS EXCLUSIVE MODE").close()
    bounds = f"'{_lowest_id(day)}'", f"'{_lowest_id(day + _DAY)}'"
    of_day = f"decision_id >= {bounds[0]} AND decision_id < {bounds[1]}"
    still_open = f"SELECT 1 FROM decision_logs_default WHERE {of_day} AND status = '{RecordStatus.PENDING}' LIMIT 1"
    if connection.exec_driver_sql(still_open).first() is not None:
        # A turn that is being closed would not find its row while it is moved. The day stays in the default partition.
        return False
    for table in PARTITIONED:
        name = f"{table.name}_{day:%Y%m%d}"
        for statement in (
            f"CREATE TABLE {name} (LIKE {table.name} INCLUDING ALL)",
            f"WITH moved AS (DELETE FROM {table.name}_default WHERE {of_day} RETURNING *) "
            f"INSERT INTO {name} SELECT * FROM moved",
            f"ALTER TABLE {table.name} ATTACH PARTITION {name} FOR VALUES FROM ({bounds[0]}) TO ({bounds[1]})",
        ):
            connection.exec_driver_sql(statement).close()
    return True


def _within(first: date, end: date, decision_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition for ids from the start of one day to the start of another one."""
    return and_(decision_id >= _lowest_id(first), decision_id < _lowest_id(end))


def _names(day: date) -> str:
    return ", ".join(f"{table.name}_{day:%Y%m%d}" for table in PARTITIONED)


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _lowest_id(day: date) -> str:
    """Return the part of an id that is its time: every id of this day and later ones is greater."""
    return uuid7(_start(day), 0)[:13]

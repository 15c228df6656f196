"""Partitions of the log on PostgreSQL: what is dropped, what stays, and what verification says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from graph_agent.audit.queries import LogQueryService
from graph_agent.audit.retention import PruneReport
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.secret import derive_record_key
from graph_agent.clock import ManualClock, uuid7
from graph_agent.db import Database, migrate
from graph_agent.models.record import DecisionOpening, DecisionRecord
from graph_agent.ports import Clock
from graph_agent.record.partitions import create_days
from graph_agent.record.tamper.violations import ViolationKind
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import Settings
from tests.audit.builders import NOON, TEXTS, make_record
from tests.record.generated_log import fill
from tests.record.trees import pruned, tree_of, verified

pytestmark = pytest.mark.postgresql

KEY = derive_record_key(b"a secret of sixteen bytes at least")
DAY = timedelta(days=1)


@pytest.fixture
def log(fresh_postgresql_url: str) -> Iterator[Database]:
    """A PostgreSQL database without tables."""
    opened = Database.open(fresh_postgresql_url)
    yield opened
    opened.close_now()


@pytest.fixture
def with_days(log: Database) -> Database:
    """A log with partitions for ten days before NOON and the day of it."""
    migrate(log, "graph_agent.record")
    assert log.write_now(lambda connection: create_days(connection, NOON - 10 * DAY, NOON)) == 11
    return log


def record_at(number: int, at: datetime) -> DecisionRecord:
    """Return a closed record whose id has this time."""
    record = make_record(number, at=at, calls=({},))
    decision_id = uuid7(at, number)
    decision = record.decision.replace(decision_id=decision_id)
    return record.replace(header=record.header.replace(decision_id=decision_id), decision=decision)


async def write(log: Database, *records: DecisionRecord, close: bool = True, clock: Clock | None = None) -> None:
    writer = DatabaseAuditWriter(log, clock=clock, record_key=KEY)
    for record in records:
        await writer.write_opening(DecisionOpening.of(record.header, TEXTS))
        if close:
            await writer.close_decision_log(record)


def partition_of(log: Database, record: DecisionRecord) -> str:
    """Return the end of the name of the partition that contains a decision."""
    wanted = f"SELECT tableoid::regclass::text FROM decision_logs WHERE decision_id = '{record.header.decision_id}'"
    return str(log.read_now(lambda connection: connection.exec_driver_sql(wanted).scalar_one())).rpartition("_")[2]


def partitions(log: Database, table: str = "decision_logs") -> int:
    wanted = f"SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass('{table}')"
    return int(log.read_now(lambda connection: connection.exec_driver_sql(wanted).scalar_one()))


async def prune_days(log: Database, before: datetime) -> PruneReport:
    return await pruned(log, before, key=KEY, whole_days=True)


async def ids(log: Database) -> set[str]:
    return {item.decision_id for item in (await LogQueryService(log).query_decisions()).items}


async def test_whole_days_are_dropped_and_the_log_verifies(with_days: Database) -> None:
    log = with_days
    records = [record_at(number, NOON - timedelta(hours=8 * number)) for number in range(30)]
    await write(log, *reversed(records))
    # The id has no time, and the row is in no partition of a day.
    imported = make_record(100, at=NOON - 9 * DAY)
    await write(log, imported)
    before, tables = NOON - 5 * DAY, partitions(log)

    report = await prune_days(log, before)
    midnight = before.replace(hour=0)
    kept = {record.header.decision_id for record in records if record.header.started_at >= midnight}
    assert await ids(log) == kept
    assert report.decisions == len(records) - len(kept) + 1
    for table in ("decision_logs", "tool_invocation_logs"):
        assert partitions(log, table) == tables - 5
    found = await verified(log, key=KEY)
    assert (found.violations, found.records, found.removed) == ([], len(kept), report.decisions)
    # The tree goes on.
    await write(log, record_at(200, NOON))
    assert (await verified(log, key=KEY)).intact
    # Without whole days, the rest of a day is removed row by row.
    exact = await pruned(log, before, key=KEY)
    assert exact.decisions == len([one for one in records if midnight <= one.header.started_at < before]) > 0
    assert (await verified(log, key=KEY)).intact


async def test_a_day_with_an_open_turn_loses_its_closed_decisions_only(with_days: Database) -> None:
    old = NOON - 8 * DAY
    closed, still_open = record_at(1, old), record_at(2, old)
    await write(with_days, closed)
    await write(with_days, still_open, close=False)
    tables = partitions(with_days)
    assert (await prune_days(with_days, NOON)).decisions == 1
    assert await ids(with_days) == {still_open.header.decision_id}
    # The days that were empty are gone, that of the open turn and today are left.
    assert partitions(with_days) == tables - 9
    assert (await verified(with_days, key=KEY)).intact
    await DatabaseAuditWriter(with_days, record_key=KEY).close_decision_log(still_open)
    assert (await prune_days(with_days, NOON)).decisions == 1
    assert partitions(with_days) == tables - 10


async def test_a_decision_that_was_removed_by_hand_is_reported_after_its_day_is_dropped(with_days: Database) -> None:
    records = [record_at(number, NOON - 8 * DAY + timedelta(minutes=number)) for number in range(4)]
    await write(with_days, *records)
    gone = records[1].header.decision_id
    for table in ("tool_invocation_logs", "decision_logs"):
        removal = f"DELETE FROM {table} WHERE decision_id = '{gone}'"
        with_days.write_now(lambda connection, removal=removal: connection.exec_driver_sql(removal).close())  # type: ignore[misc]  # a default binds the value
    assert (await prune_days(with_days, NOON)).decisions == 3
    [violation] = (await verified(with_days, key=KEY)).violations
    assert (violation.kind, violation.decision_id) == (ViolationKind.REMOVED, gone)


async def test_a_day_that_is_created_late_takes_its_rows_from_the_default_partition(with_days: Database) -> None:
    log, late = with_days, NOON + 3 * DAY
    closed, still_open = record_at(1, late), record_at(2, late)
    await write(log, closed)
    await write(log, still_open, close=False)
    assert partition_of(log, closed) == "default"
    create = partial(create_days, first=late, last=late + DAY)
    # The rows of a turn that is being closed must not move. The next day is created.
    assert log.write_now(create) == 1
    assert partition_of(log, closed) == "default"
    await DatabaseAuditWriter(log, record_key=KEY).close_decision_log(still_open)
    assert (log.write_now(create), log.write_now(create)) == (1, 0)
    assert {partition_of(log, one) for one in (closed, still_open)} == {f"{late:%Y%m%d}"}
    assert (await verified(log, key=KEY)).intact


async def test_a_decision_is_found_by_its_id_in_one_partition(with_days: Database) -> None:
    # With COPY, and with the partitions of their days.
    await asyncio.to_thread(fill, with_days, 300)
    newest = (await LogQueryService(with_days).query_decisions(limit=1)).items[0].decision_id
    plan = f"EXPLAIN SELECT * FROM decision_logs JOIN tool_invocation_logs USING (decision_id) WHERE decision_id = '{newest}'"
    lines = with_days.read_now(lambda connection: connection.exec_driver_sql(plan).scalars().all())
    assert sorted(set(re.findall(r"on (\w+_\d{8})", "\n".join(lines)))) == [
        "decision_logs_20260930",
        "tool_invocation_logs_20260930",
    ]
    assert (await LogQueryService(with_days).get_decision_trace(newest)).llm_calls
    assert await tree_of(with_days, None).seal() == 300


async def test_the_sweeper_creates_days_ahead(fresh_postgresql_url: str, log: Database, tmp_path: Path) -> None:
    settings = Settings(GRAPH_AGENT_HOME=tmp_path, DATABASE_URL=fresh_postgresql_url)
    async with open_runtime(settings, model="embedded", clock=ManualClock(datetime.now(UTC) + 3 * DAY)) as runtime:
        before = partitions(log)
        await runtime.chat.serve_due()
        assert partitions(log) == before + 3

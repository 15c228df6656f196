"""The stored counts of full hours: metrics that use them equal those that are counted from the decisions."""

from __future__ import annotations

import asyncio
import random
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, insert, select, update

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.metric_counts import HOURS_AT_ONCE, count_hours
from graph_agent.audit.metrics import MetricsSummary
from graph_agent.audit.queries import LogQueryService
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.clock import ManualClock, uuid7
from graph_agent.db import Database, migrate
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory
from graph_agent.models.record import CallDisposition, DecisionOpening, DecisionRecord, RecordStatus
from graph_agent.record.metrics_hours import forget_hours
from graph_agent.record.partitions import create_days
from graph_agent.record.projection import decision_row
from graph_agent.record.tables import decision_logs, metrics_hours
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import Settings
from tests.audit.builders import NOON, TEXTS, make_record, store_records
from tests.record.trees import pruned

HOUR = timedelta(hours=1)
LATER = NOON + timedelta(hours=12)
EVER = (None, None)


def random_records(count: int, hours: int, seed: int = 2026) -> list[DecisionRecord]:
    """Return decisions of all kinds over some hours from noon; some of their calls are requested in the following hour."""
    chance = random.Random(seed)
    records = []
    for number in range(1, count + 1):
        at = NOON + hours * HOUR * chance.random()
        calls = tuple(
            {
                "tool_name": chance.choice(["add_task", "list_tasks"]),
                "success": chance.random() < 0.8,
                "error_code": chance.choice([None, "NOT_FOUND"]),
                "disposition": chance.choice(list(CallDisposition)),
                "duration_ms": chance.randrange(5),
                "invoked_at": at + timedelta(minutes=chance.randrange(20)),
            }
            for _ in range(chance.randrange(3))
        )
        records.append(
            make_record(
                number,
                at=at,
                ms=chance.randrange(20),
                calls=calls,
                tokens=chance.choice([None, 10, 20]),
                outcome=chance.choice(list(OutcomeCategory)),
                decision_type=chance.choice([DecisionType.INVOKE_TOOL, DecisionType.RESPOND_ONLY]),
                intent=chance.choice([None, *IntentType]),
                model=chance.choice(["gemini", "embedded"]),
                status=chance.choice([RecordStatus.COMPLETED, RecordStatus.INTERRUPTED]),
            )
        )
    return records


def counted_hours(log: Database) -> list[datetime]:
    wanted = select(metrics_hours.c.hour).order_by(metrics_hours.c.hour)
    return log.read_now(lambda connection: list(connection.execute(wanted).scalars()))


async def summaries(log: Database, ranges: list[tuple[datetime | None, datetime | None]]) -> list[MetricsSummary]:
    return [await LogQueryService(log).get_metrics_summary(*each) for each in ranges]


async def require_exact(log: Database, *ranges: tuple[datetime | None, datetime | None]) -> MetricsSummary:
    """Compare the metrics of ranges with those without any stored counts; return those of the whole log."""
    wanted = [EVER, *ranges]
    found = await summaries(log, wanted)
    log.write_now(lambda connection: connection.execute(delete(metrics_hours)))
    assert found == await summaries(log, wanted)
    return found[0]


async def test_metrics_are_the_same_with_and_without_stored_counts(log: Database) -> None:
    store_records(log, *random_records(300, hours=9))
    opened = make_record(1000, at=NOON + 2.5 * HOUR)
    await DatabaseAuditWriter(log, clock=ManualClock(LATER)).write_opening(DecisionOpening.of(opened.header, TEXTS))
    assert await count_hours(log, LATER) == 10
    assert counted_hours(log) == [NOON + HOUR * number for number in range(10)]
    chance = random.Random(7)
    edges = [None, *(NOON + HOUR * number for number in range(11)), *(NOON + 10 * HOUR * chance.random() for _ in range(11))]
    pairs = [(chance.choice(edges), chance.choice(edges)) for _ in range(60)]
    whole = await require_exact(log, *((a, b) for a, b in pairs if a is None or b is None or a < b))
    assert (whole.total, whole.open) == (301, 1)


async def test_full_hours_are_not_read_again_unless_other_columns_are_filtered(log: Database) -> None:
    store_records(log, *(make_record(number, at=NOON + number * HOUR / 2) for number in range(6)))
    await count_hours(log, LATER)
    # A change that no writer makes, and that only those see who read the decisions themselves.
    log.write_now(lambda connection: connection.execute(update(decision_logs).values(model="other")))
    service = LogQueryService(log)
    across = await service.get_metrics_summary(NOON + HOUR / 2, NOON + 2.5 * HOUR)
    assert across.models == {"gemini": 2, "other": 2}
    of_user = await service.get_metrics_summary(filters=DecisionFilter(user_id="ann"))
    assert of_user.models == {"other": 6}
    halves = await service.get_metrics_timeline(NOON, NOON + 3 * HOUR, 2)
    assert [half.models for half in halves] == [{"gemini": 2, "other": 1}, {"gemini": 2, "other": 1}]


async def test_an_hour_is_counted_only_after_its_turns_can_no_longer_end_in_time(log: Database) -> None:
    store_records(log, make_record(1))
    assert await count_hours(log, NOON + 3 * HOUR - timedelta(seconds=1)) == 0
    assert await count_hours(log, NOON + 3 * HOUR) == 1
    assert await count_hours(log, NOON + 3 * HOUR) == 0


async def test_a_turn_that_is_opened_or_closed_late_is_counted(log: Database) -> None:
    clock = ManualClock(NOON)
    writer = DatabaseAuditWriter(log, clock=clock)
    called_later = {"invoked_at": NOON + 1.5 * HOUR}
    crashed, delayed = make_record(1, calls=(called_later,)), make_record(2)
    store_records(log, make_record(3), make_record(4, at=NOON + 1.2 * HOUR), make_record(5, at=NOON + 2.2 * HOUR))
    await writer.write_opening(DecisionOpening.of(crashed.header, TEXTS))
    clock.advance(seconds=5 * 3600)
    assert await count_hours(log, clock.now()) == 3
    await writer.close_decision_log(crashed)
    assert counted_hours(log) == [NOON + 2 * HOUR]
    assert await count_hours(log, clock.now()) == 2
    await writer.write_opening(DecisionOpening.of(delayed.header, TEXTS))
    assert (await LogQueryService(log).get_metrics_summary()).open == 1
    await writer.close_decision_log(delayed)
    whole = await require_exact(log)
    assert (whole.total, whole.open, whole.tool_calls) == (5, 0, 1)


async def test_the_commits_of_a_turn_in_time_leave_the_counts_alone(log: Database) -> None:
    store_records(log, make_record(1))
    await count_hours(log, NOON + 3 * HOUR)
    writer = DatabaseAuditWriter(log, clock=ManualClock(NOON + 3.1 * HOUR))
    record = make_record(2, at=NOON + 3 * HOUR)
    await writer.write_opening(DecisionOpening.of(record.header, TEXTS))
    await writer.close_decision_log(record)
    assert counted_hours(log) == [NOON]
    assert (await require_exact(log)).total == 2


async def test_pruned_decisions_are_no_longer_counted(log: Database) -> None:
    store_records(log, *random_records(200, hours=6))
    await count_hours(log, LATER)
    before = NOON + 2.5 * HOUR
    removed = (await pruned(log, before)).decisions
    # The hours of the removed decisions and of their calls.
    assert NOON + 2 * HOUR not in counted_hours(log)
    assert NOON + 4 * HOUR in counted_hours(log)
    assert (await require_exact(log)).total == 200 - removed


@pytest.mark.postgresql
async def test_the_decisions_of_a_dropped_day_are_no_longer_counted(fresh_postgresql_url: str) -> None:
    log = Database.open(fresh_postgresql_url)
    migrate(log, "graph_agent.record")
    yesterday = NOON - timedelta(days=1)
    log.write_now(lambda connection: create_days(connection, yesterday, NOON))
    writer = DatabaseAuditWriter(log, clock=ManualClock(NOON))
    for number, at in enumerate((yesterday, yesterday + HOUR, NOON), start=1):
        record = make_record(number, at=at, calls=({},))
        decision_id = uuid7(at, number)
        record = record.replace(
            header=record.header.replace(decision_id=decision_id), decision=record.decision.replace(decision_id=decision_id)
        )
        await writer.write_opening(DecisionOpening.of(record.header, TEXTS))
        await writer.close_decision_log(record)
    await count_hours(log, LATER)
    report = await pruned(log, NOON, whole_days=True)
    assert report.decisions == 2
    whole = await require_exact(log)
    assert (whole.total, whole.tool_calls) == (1, 1)
    log.close_now()


@pytest.mark.postgresql
async def test_an_hour_is_not_counted_while_a_transaction_changes_it(fresh_postgresql_url: str) -> None:
    log = Database.open(fresh_postgresql_url)
    migrate(log, "graph_agent.record")
    late = make_record(2)
    store_records(log, make_record(1))
    loop, inserted = asyncio.get_running_loop(), asyncio.Event()
    count_ended = threading.Event()
    waits = "SELECT count(*) FROM pg_locks WHERE relation = to_regclass('metrics_hours') AND NOT granted"

    def insert_slowly(connection: Connection) -> None:
        connection.execute(insert(decision_logs), [decision_row(late.to_json())])
        forget_hours(connection, lambda column: column == late.header.decision_id)
        loop.call_soon_threadsafe(inserted.set)
        while not count_ended.is_set() and not connection.exec_driver_sql(waits).scalar_one():
            count_ended.wait(0.01)

    async def count() -> int:
        await inserted.wait()
        try:
            return await count_hours(log, LATER)
        finally:
            count_ended.set()

    _, counted = await asyncio.gather(log.write(insert_slowly), count())
    assert counted == 10
    assert (await require_exact(log)).total == 2
    log.close_now()


async def test_one_sweep_counts_some_hours_and_the_newest_first(tmp_path: Path) -> None:
    clock = ManualClock(LATER)
    settings = Settings(GRAPH_AGENT_HOME=tmp_path)
    async with open_runtime(settings, model="embedded", clock=clock) as runtime:
        log = runtime.database
        store_records(log, make_record(1, at=LATER - timedelta(days=6)))
        await runtime.chat.serve_due()
        hours = counted_hours(log)
        assert (len(hours), hours[-1]) == (HOURS_AT_ONCE, LATER - 3 * HOUR)
        await count_hours(log, clock.now())
        assert len(counted_hours(log)) == 6 * 24 - 2
        assert (await require_exact(log)).total == 1

"""Retention: old decisions are removed completely, the others stay complete, and writers can write meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import Table, func, select

from graph_agent.audit import retention
from graph_agent.audit.queries import LogQueryService
from graph_agent.audit.retention import BATCH
from graph_agent.db import Database
from graph_agent.models.canonical import digest
from graph_agent.models.record import DecisionOpening
from graph_agent.record.tables import record_blobs, tool_invocation_logs
from graph_agent.record.writer import DatabaseAuditWriter
from tests.audit.builders import NOON, TEXTS, make_record, store_records
from tests.record.trees import pruned

MONTH = timedelta(days=30)


def rows(log: Database, model: Table) -> int:
    return log.read_now(lambda connection: connection.execute(select(func.count()).select_from(model)).scalar_one())


async def test_old_decisions_are_removed_with_their_calls_and_recent_ones_stay(log: Database) -> None:
    old = [make_record(number, at=NOON - MONTH + timedelta(seconds=number), calls=({}, {})) for number in range(1, BATCH + 50)]
    recent = make_record(1000, calls=({},))
    store_records(log, *old, recent)
    reported: list[int] = []
    report = await pruned(log, NOON - timedelta(days=1), on_batch=reported.append)
    assert (report.decisions, reported) == (BATCH + 49, [BATCH, BATCH + 49])
    assert [item.decision_id for item in (await LogQueryService(log).query_decisions()).items] == [recent.header.decision_id]
    assert rows(log, tool_invocation_logs) == 1
    assert (await pruned(log, NOON - timedelta(days=1))).decisions == 0


async def test_texts_are_removed_when_no_remaining_decision_can_reference_them(log: Database) -> None:
    store_records(
        log,
        make_record(1, at=NOON - MONTH, constitution="an old one"),
        make_record(2),
        texts={digest("an old one"): "an old one"},
    )
    report = await pruned(log, NOON - timedelta(days=1))
    assert (report.decisions, report.texts) == (1, 1)
    stored = log.read_now(lambda connection: set(connection.execute(select(record_blobs.c.digest)).scalars()))
    assert stored == set(TEXTS)


async def test_a_text_that_is_referenced_again_stays(log: Database) -> None:
    store_records(log, make_record(1, at=NOON - MONTH))
    writer = DatabaseAuditWriter(log)
    for number in (2, 3):
        header = make_record(number, at=NOON + timedelta(hours=number)).header
        await writer.write_opening(DecisionOpening.of(header, TEXTS))
    assert (await pruned(log, NOON - timedelta(days=1))).texts == 0
    spans = log.read_now(
        lambda connection: {
            tuple(row) for row in connection.execute(select(record_blobs.c.first_used_at, record_blobs.c.last_used_at))
        }
    )
    assert spans == {(NOON - MONTH, NOON + timedelta(hours=3))}


async def test_an_open_turn_and_its_texts_stay(log: Database) -> None:
    header = make_record(1, at=NOON - MONTH).header
    await DatabaseAuditWriter(log).write_opening(DecisionOpening.of(header, TEXTS))
    report = await pruned(log, NOON)
    assert (report.decisions, report.texts) == (0, 0)
    assert (await LogQueryService(log).query_decisions()).total == 1


async def test_writers_can_write_between_two_batches(log: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # Many short batches, so that one is still to come when a slow write has ended.
    monkeypatch.setattr(retention, "BATCH", 4)
    store_records(log, *(make_record(number, at=NOON - MONTH + timedelta(seconds=number)) for number in range(1, 6 * BATCH)))
    order: list[str] = []

    async def write() -> None:
        header = make_record(10_000).header
        await DatabaseAuditWriter(log).write_opening(DecisionOpening.of(header, {}))
        order.append("written")

    writing: list[asyncio.Task[None]] = []

    def on_batch(_removed: int) -> None:
        order.append("batch")
        if not writing:
            writing.append(asyncio.create_task(write()))

    await pruned(log, NOON - timedelta(days=1), on_batch=on_batch)
    await writing[0]
    assert order.index("written") < len(order) - 1

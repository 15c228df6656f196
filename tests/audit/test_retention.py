"""Retention: what is old goes whole, what is kept stays whole, and writers are let in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection, func, select

from graph_agent.audit.drift.baselines import BaselineService
from graph_agent.audit.drift.compare import MIN_DECISIONS
from graph_agent.audit.queries import LogQueryService
from graph_agent.audit.retention import BATCH, prune
from graph_agent.record.tables import Base, LLMCallLog, RecordBlob, ToolInvocationLog
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.db import Database
from graph_agent.models.canonical import digest
from tests.audit.made import NOON, TEXTS, made, put

MONTH = timedelta(days=30)


def rows(log: Database, model: type[Base]) -> int:
    return log.read_now(lambda connection: connection.execute(select(func.count()).select_from(model)).scalar_one())


async def test_old_decisions_go_with_their_calls_and_young_ones_stay(log: Database) -> None:
    old = [made(number, at=NOON - MONTH + timedelta(seconds=number), calls=({}, {})) for number in range(1, BATCH + 50)]
    young = made(1000, calls=({},))
    put(log, *old, young)
    heard: list[int] = []
    report = await prune(log, NOON - timedelta(days=1), on_batch=heard.append)
    assert (report.decisions, heard) == (BATCH + 49, [BATCH, BATCH + 49])
    assert [item.decision_id for item in (await LogQueryService(log).query_decisions()).items] == [young.header.decision_id]
    assert (rows(log, ToolInvocationLog), rows(log, LLMCallLog)) == (1, 1)
    assert (await prune(log, NOON - timedelta(days=1))).decisions == 0


async def test_texts_go_when_no_decision_that_is_left_can_name_them(log: Database) -> None:
    put(
        log,
        made(1, at=NOON - MONTH, constitution="an old one"),
        made(2),
        texts={digest("an old one"): "an old one"},
    )
    report = await prune(log, NOON - timedelta(days=1))
    assert (report.decisions, report.texts) == (1, 1)
    stored = log.read_now(lambda connection: set(connection.execute(select(RecordBlob.digest)).scalars()))
    assert stored == set(TEXTS)


async def test_a_text_that_is_named_again_is_marked_by_the_writer_and_stays(log: Database) -> None:
    put(log, made(1, at=NOON - MONTH))
    writer = DatabaseAuditWriter(log)
    for number in (2, 3):
        header = made(number, at=NOON + timedelta(hours=number)).header
        await writer.write_decision_log(
            decision_id=header.decision_id, conversation_id="c", user_id="ann", message="hi", header=header, blobs=TEXTS
        )
    assert (await prune(log, NOON - timedelta(days=1))).texts == 0
    spans = log.read_now(
        lambda connection: {tuple(row) for row in connection.execute(select(RecordBlob.first_used_at, RecordBlob.last_used_at))}
    )
    assert spans == {(NOON - MONTH, NOON + timedelta(hours=3))}


async def test_a_turn_that_is_still_open_is_not_touched_nor_are_its_texts(log: Database) -> None:
    header = made(1, at=NOON - MONTH).header
    await DatabaseAuditWriter(log).write_decision_log(
        decision_id=header.decision_id, conversation_id="c", user_id="ann", message="hi", header=header, blobs=TEXTS
    )
    report = await prune(log, NOON)
    assert (report.decisions, report.texts) == (0, 0)
    assert (await LogQueryService(log).query_decisions()).total == 1


async def test_baselines_and_reports_stay(log: Database) -> None:
    put(log, *(made(number, at=NOON - MONTH + timedelta(seconds=number)) for number in range(1, MIN_DECISIONS + 1)))
    baselines = BaselineService(log)
    await baselines.create_baseline("before", until=NOON - timedelta(days=10))
    await prune(log, NOON)
    assert (await baselines.get_baseline("before")).decisions == MIN_DECISIONS


async def test_writers_are_let_in_between_two_batches(log: Database) -> None:
    put(log, *(made(number, at=NOON - MONTH + timedelta(seconds=number)) for number in range(1, 6 * BATCH)))
    order: list[str] = []

    async def write() -> None:
        header = made(10_000).header
        await DatabaseAuditWriter(log).write_decision_log(
            decision_id=header.decision_id, conversation_id="c", user_id="ann", message="hi", header=header
        )
        order.append("written")

    writing: list[asyncio.Task[None]] = []

    def on_batch(_gone: int) -> None:
        order.append("batch")
        if not writing:
            writing.append(asyncio.create_task(write()))

    await prune(log, NOON - timedelta(days=1), on_batch=on_batch)
    await writing[0]
    assert order.index("written") < len(order) - 1


async def test_whoever_seals_the_record_is_told_inside_the_transaction(log: Database) -> None:
    put(log, *(made(number, at=NOON - MONTH) for number in range(1, 4)))
    told: list[str] = []

    def cut(connection: Connection, decision_ids: Sequence[str]) -> None:
        assert connection.in_transaction()
        told.extend(decision_ids)

    await prune(log, NOON, cut=cut)
    assert sorted(told) == [made(number).header.decision_id for number in range(1, 4)]

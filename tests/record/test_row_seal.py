"""The seals of baselines, reports and settlements, and the prune horizon."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, update

from graph_agent.audit.drift.baselines import BaselineService
from graph_agent.audit.drift.profiles import build_profiles, observe
from graph_agent.audit.drift.reports import ReportKind, store_report
from graph_agent.audit.retention import prune
from graph_agent.clock import ManualClock
from graph_agent.db import Database, migrate
from graph_agent.models.canonical import canonical_json
from graph_agent.models.tools import ToolResult
from graph_agent.record.chain import Sealer, derive_chain_key
from graph_agent.record.row_seal import with_seal
from graph_agent.record.sealed_rows import TALLY
from graph_agent.record.settlements import Settlement, store_settlement
from graph_agent.record.tables import baselines_table, reports_table
from graph_agent.record.tamper.heads import SignedHeads, sign_heads
from graph_agent.record.tamper.pruned import mark_pruned
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import ViolationKind
from graph_agent.record.writer import DatabaseAuditWriter
from tests.audit.builders import make_record
from tests.record.upgrading import upgrade_to
from tests.scripted_turns import asks, engine_of, says

KEY = derive_chain_key(b"a secret of sixteen bytes at least")
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


async def execute(log: Database, statement: Any) -> None:
    await log.write(lambda connection: connection.execute(statement).close())


async def references(*ids: str, at: datetime) -> AsyncIterator[list[tuple[str, datetime]]]:
    yield [(decision_id, at) for decision_id in ids]


async def test_every_changed_column_of_a_sealed_row_is_found(log: Database) -> None:
    await BaselineService(log, chain_key=KEY, clock=ManualClock(NOON)).store_profiles(
        "good", build_profiles(observe(make_record(number)) for number in range(40)), description="as it was"
    )
    await store_report(log, ReportKind.DRIFT, "r1", NOON, passed=False, report={"drift": [0.25]}, sealer=Sealer(KEY))
    settlement = Settlement(decision_id="d", sequence=1, result=ToolResult(success=True, data={"n": 1}), settled_at=NOON)
    await log.write(lambda connection: store_settlement(connection, settlement, Sealer(KEY)))
    assert (await verify_log(log, key=KEY)).violations == []

    later = NOON + timedelta(microseconds=1)
    changes: dict[Any, dict[str, Any]] = {
        baselines_table: {"name": "bad", "description": None, "since": NOON, "decisions": 1, "profiles": [], "seal": "0" * 64},
        reports_table: {"kind": "other", "passed": True, "report": {}, "created_at": later},
    }
    for table, column, value in ((table, *change) for table, columns in changes.items() for change in columns.items()):
        key = next(iter(table.primary_key))
        first = table.select().order_by(key).limit(1)
        stored = dict(await log.read(lambda connection, first=first: connection.execute(first).mappings().one()))  # type: ignore[misc]  # a default binds the value
        row = update(table).where(key == stored[key.name])
        await execute(log, row.values({column: value}))
        found = (await verify_log(log, key=KEY)).violations
        assert [(one.kind, stored[key.name] in one.text) for one in found] == [(ViolationKind.EDITED, True)], column
        await execute(log, row.values(stored))
    assert (await verify_log(log, key=KEY)).violations == []
    forged = {"report_id": "r2", "kind": "drift", "created_at": NOON, "passed": True, "report": {}}
    await execute(log, insert(reports_table).values(forged))
    assert [one.kind for one in (await verify_log(log, key=KEY)).violations] == [ViolationKind.ADDED]


async def test_a_decision_that_is_named_elsewhere_is_missing_unless_it_was_pruned(log: Database) -> None:
    clock = ManualClock(NOON)
    engine = engine_of(says("hi"), says("hi"), audit=DatabaseAuditWriter(log, chain_key=KEY), clock=clock)
    old = (await engine.run(asks("hello"))).record.header.decision_id
    clock.advance(seconds=3600)
    new = (await engine.run(asks("hello"))).record.header.decision_id

    async def missing() -> list[str | None]:
        named = {"a turn": references(old, at=NOON), "an operation": references(new, at=NOON + timedelta(hours=1))}
        report = await verify_log(log, key=KEY, references=named)
        assert report.references == 2
        return [one.decision_id for one in report.violations if one.kind is ViolationKind.REMOVED]

    assert await missing() == []
    await prune(log, NOON + timedelta(minutes=30), mark=partial(mark_pruned, key=KEY))
    assert await missing() == []
    # The horizon counts only with its seal.
    await execute(log, update(reports_table).values(seal=""))
    assert await missing() == [old]
    await execute(log, delete(reports_table))
    assert await missing() == [old]


async def test_a_migration_seals_the_rows_that_exist_and_the_prune_horizon(database: Database) -> None:
    upgrade_to(database, "graph_agent.record", "0005")
    later = NOON + timedelta(days=1)
    statements = (
        "INSERT INTO record_chains (chain, started_at, signed_n, signed_mac, signature, cut_n, cut_mac, cut_signature) "
        "VALUES ('c', '2026-01-01T00:00:00+00:00', 1, '', '', 1, '', '')",
        "INSERT INTO baselines (baseline_id, name, created_at, decisions, profiles) "
        "VALUES ('b', 'good', '2026-01-01T00:00:00.000000+00:00', 40, '[]')",
        "INSERT INTO reports (report_id, kind, created_at, passed, report) "
        "VALUES ('r', 'drift', '2026-01-01T00:00:00.000000+00:00', true, '{}')",
    )
    for statement in statements:
        database.write_now(lambda connection, text=statement: connection.exec_driver_sql(text).close())  # type: ignore[misc]  # a default binds the value
    migrate(database, "graph_agent.record", chain_key=lambda: KEY)

    report = await verify_log(database, key=KEY, references={"a turn": references("gone", at=later)})
    # Only the chain, which was inserted without signatures. The log was empty, so everything until now counts as pruned.
    assert {one.kind for one in report.violations} == {ViolationKind.SIGNATURE}


async def _fill(log: Database, clock: ManualClock) -> None:
    profiles = build_profiles(observe(make_record(number)) for number in range(40))
    for name in ("good", "better"):
        await BaselineService(log, chain_key=KEY, clock=clock).store_profiles(name, profiles)
    await store_report(log, ReportKind.DRIFT, "r1", NOON, passed=False, report={"drift": [0.25]}, sealer=Sealer(KEY))
    for number in (1, 2):
        at = NOON + timedelta(hours=number)
        settlement = Settlement(decision_id="d", sequence=number, result=ToolResult(success=True), settled_at=at)
        # Written once, however often the sweeper finds it.
        for _ in range(2):
            await log.write(lambda connection, one=settlement: store_settlement(connection, one, Sealer(KEY)))  # type: ignore[misc]  # a default binds the value


async def _found(log: Database, heads: SignedHeads | None = None) -> list[ViolationKind]:
    return [one.kind for one in (await verify_log(log, key=KEY, heads=heads)).violations]


@pytest.mark.parametrize(
    ("table", "which"),
    [
        (baselines_table, baselines_table.c.name == "good"),
        (reports_table, reports_table.c.report_id == "r1"),
        (reports_table, reports_table.c.report_id == "settlement:d:2"),
        (reports_table, reports_table.c.report_id == TALLY),
    ],
    ids=["baseline", "report", "settlement", "tally"],
)
async def test_a_removed_baseline_report_or_settlement_is_found(log: Database, table: Any, which: Any) -> None:
    await _fill(log, ManualClock(NOON))
    assert await _found(log) == []
    await execute(log, delete(table).where(which))
    assert await _found(log) == [ViolationKind.REMOVED]
    # What is written later hides nothing.
    await store_report(log, ReportKind.DRIFT, "r2", NOON, passed=True, report={}, sealer=Sealer(KEY))
    assert await _found(log) == [ViolationKind.REMOVED]


async def test_a_row_that_is_replaced_by_an_earlier_one_is_found(log: Database) -> None:
    await _fill(log, ManualClock(NOON))
    first, second = (reports_table.c.report_id == f"settlement:d:{number}" for number in (1, 2))
    earlier = dict(await log.read(lambda connection: connection.execute(reports_table.select().where(first)).mappings().one()))
    await prune(log, NOON + timedelta(minutes=90), mark=partial(mark_pruned, key=KEY), chain_key=KEY)
    assert await _found(log) == []
    await execute(log, delete(reports_table).where(second))
    await execute(log, insert(reports_table).values(earlier))
    assert await _found(log) == [ViolationKind.REMOVED]


async def test_an_old_tally_is_found_by_heads_that_were_kept_elsewhere(log: Database) -> None:
    await _fill(log, ManualClock(NOON))
    tally = reports_table.c.report_id == TALLY
    old = dict(await log.read(lambda connection: connection.execute(reports_table.select().where(tally)).mappings().one()))
    await store_report(log, ReportKind.DRIFT, "r2", NOON, passed=True, report={}, sealer=Sealer(KEY))
    heads = SignedHeads.from_text((await sign_heads(log, KEY, NOON)).to_text())
    assert await _found(log, heads) == []
    await execute(log, delete(reports_table).where(reports_table.c.report_id == "r2"))
    await execute(log, update(reports_table).where(tally).values(old))
    assert await _found(log) == []
    assert await _found(log, heads) == [ViolationKind.REMOVED]


async def test_heads_of_an_earlier_version_are_still_valid(log: Database) -> None:
    earlier = SignedHeads(at=NOON, heads=[]).signed(Sealer(KEY))
    text = json.dumps({name: value for name, value in json.loads(earlier.to_text()).items() if name != "rows"})
    signed = {name: value for name, value in json.loads(text).items() if name != "signature"}
    assert earlier.signature == Sealer(KEY).compute("heads", text=canonical_json({**signed, "signature": ""}))
    assert await _found(log, SignedHeads.from_text(text)) == []


async def test_a_migration_counts_the_rows_that_exist(database: Database) -> None:
    upgrade_to(database, "graph_agent.record", "0006")
    sealer = Sealer(KEY)

    def insert_baseline(connection: Connection) -> None:
        row = {"baseline_id": "b", "name": "good", "created_at": NOON, "decisions": 40, "profiles": []}
        connection.execute(insert(baselines_table), with_seal(connection, baselines_table, row, sealer))

    database.write_now(insert_baseline)
    migrate(database, "graph_agent.record", chain_key=lambda: KEY)
    assert await _found(database) == []
    await execute(database, delete(baselines_table))
    assert await _found(database) == [ViolationKind.REMOVED]

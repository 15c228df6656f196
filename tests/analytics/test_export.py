"""The export to Parquet, incremental and complete, and SQL over it that can read nothing else."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from graph_agent.analytics import parquet
from graph_agent.analytics.parquet import ParquetExport
from graph_agent.analytics.sql import run_sql
from graph_agent.analytics.tables import TABLES
from graph_agent.db import Database
from graph_agent.errors import ServiceError
from graph_agent.models.record import DecisionOpening
from graph_agent.record.writer import DatabaseAuditWriter
from tests.audit.builders import NOON, make_record, store_records

DAY = timedelta(days=1)
CALL = {"tool_name": "add_task", "parameters": {"description": "Käse 🧀"}, "result": {"task": {"id": 1}}}


async def export(log: Database, directory: Path, **bounds: Any) -> list[tuple[Any, ...]]:
    return [tuple(day) async for day in ParquetExport(log, directory).run(**bounds)]


def query(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    with run_sql(directory, sql) as result:
        return list(result.rows)


@pytest.mark.parametrize("batch", [parquet.BATCH, 2])
async def test_every_closed_decision_and_its_calls_are_exported_once(
    log: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    # A batch of the real size has thousands of decisions.
    monkeypatch.setattr(parquet, "BATCH", batch)
    # Three of each day's decisions begin at the same moment, so that batches end among equal times.
    records = [make_record(n, at=NOON + DAY * (n % 2) + timedelta(minutes=n // 6), calls=(CALL, CALL)) for n in range(1, 12)]
    store_records(log, *records)
    await DatabaseAuditWriter(log).write_opening(DecisionOpening.of(make_record(99).header, {}))

    assert await export(log, tmp_path) == [("2026-03-10", 5, True), ("2026-03-11", 6, True)]

    exported = query(
        tmp_path, "SELECT decision_id, created_at, message, status FROM decisions ORDER BY created_at, decision_id"
    )
    expected = sorted((r.header.started_at, r.header.decision_id) for r in records)
    assert [(at, decision_id) for decision_id, at, _, _ in exported] == expected
    assert {(message, status) for _, _, message, status in exported} == {("add a task", "completed")}
    calls = query(
        tmp_path, "SELECT sequence, parameters, result, count(DISTINCT decision_id) FROM tool_calls GROUP BY ALL ORDER BY ALL"
    )
    assert calls == [(n, '{"description":"Käse 🧀"}', '{"task":{"id":1}}', 11) for n in (1, 2)]
    assert query(tmp_path, "SELECT count(*), count(DISTINCT decision_id) FROM model_calls") == [(11, 11)]


async def test_a_second_export_writes_only_the_days_that_have_gained_decisions(log: Database, tmp_path: Path) -> None:
    store_records(log, make_record(1), make_record(2, at=NOON + DAY))
    await export(log, tmp_path)
    store_records(log, make_record(3, at=NOON + DAY))

    assert await export(log, tmp_path) == [("2026-03-10", 1, False), ("2026-03-11", 2, True)]
    assert query(tmp_path, "SELECT day::TEXT, count(*) FROM decisions GROUP BY ALL ORDER BY ALL") == [
        ("2026-03-10", 1),
        ("2026-03-11", 2),
    ]


async def test_days_without_decisions_are_skipped(log: Database, tmp_path: Path) -> None:
    # An imported decision can have any time. Each of the 740,000 days between these two would take a query.
    store_records(log, make_record(1, at=NOON.replace(year=1)), make_record(2))
    assert [count for _, count, _ in await export(log, tmp_path)] == [1, 1]


async def test_a_day_that_the_log_no_longer_has_stays_exported(log: Database, tmp_path: Path) -> None:
    store_records(log, make_record(1), make_record(2), make_record(3, at=NOON + DAY))
    await export(log, tmp_path)

    def remove(connection: Any) -> None:
        for table in ("tool_invocation_logs", "llm_call_logs", "decision_logs"):
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE decision_id = '{make_record(1).header.decision_id}'")

    log.write_now(remove)
    assert await export(log, tmp_path) == [("2026-03-10", 1, False), ("2026-03-11", 1, False)]
    assert query(tmp_path, "SELECT count(*) FROM decisions") == [(3,)]


async def test_an_interrupted_export_is_completed_by_the_next_one(
    log: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_records(log, make_record(1), make_record(2, at=NOON + DAY))
    written: list[Path] = []
    real = Path.replace

    def fail_at_the_second_day(self: Path, target: Path) -> Path:
        written.append(target)
        if len(written) == 5:
            raise OSError(28, os.strerror(28))
        return real(self, target)

    with monkeypatch.context() as patch:
        # A disk that is full at one file of several cannot be had.
        patch.setattr(Path, "replace", fail_at_the_second_day)
        with pytest.raises(OSError, match="No space left"):
            await export(log, tmp_path)

    assert query(tmp_path, "SELECT count(*) FROM decisions") == [(1,)]
    assert await export(log, tmp_path) == [("2026-03-10", 1, False), ("2026-03-11", 1, True)]
    assert query(tmp_path, "SELECT count(*) FROM decisions") == [(2,)]


async def test_a_time_range_exports_the_whole_days_that_it_touches(log: Database, tmp_path: Path) -> None:
    store_records(log, *[make_record(n, at=NOON + DAY * n) for n in range(1, 6)])
    days = await export(log, tmp_path, since=NOON + DAY * 2 + timedelta(hours=1), until=NOON + DAY * 3)
    assert [day for day, _, _ in days] == ["2026-03-12", "2026-03-13"]


async def test_only_the_owner_can_read_the_files_and_directories(log: Database, tmp_path: Path) -> None:
    store_records(log, make_record(1))
    new = tmp_path / "upper" / "new"
    await export(log, new)
    files = list(new.rglob("*.parquet"))
    directories = {directory for file in files for directory in list(file.parents)[:3]}
    assert new in directories
    assert {stat.S_IMODE(directory.stat().st_mode) for directory in directories} == {0o700}
    assert len(files) == len(TABLES)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_a_file_describes_its_columns(log: Database, tmp_path: Path) -> None:
    store_records(log, make_record(1))
    await export(log, tmp_path)
    (file,) = (tmp_path / "decisions").rglob("*.parquet")
    field = pq.read_schema(file).field("duration_ms")
    assert field.metadata[b"description"] == b"how long the turn took, in milliseconds"


@pytest.fixture
async def exported(log: Database, tmp_path: Path) -> Path:
    store_records(log, make_record(1, calls=(CALL,)))
    await export(log, tmp_path / "export")
    return tmp_path / "export"


REFUSED = {
    "a write": "COPY decisions TO '{directory}/decisions/x.csv'",
    "a write that is explained": "EXPLAIN ANALYZE COPY decisions TO '{directory}/decisions/x.csv'",
    "a change of the session": "SET threads = 1",
    "another database": "ATTACH '{directory}/x.db'",
    "two statements": "SELECT 1; SELECT 2",
    "no statement": " ",
    "another file": "SELECT * FROM read_text('{directory}.txt')",
    "a path that leaves the directory": "SELECT * FROM read_text('{directory}/../export.txt')",
    "an address": "SELECT * FROM read_text('http://127.0.0.1:9/')",
    "the environment": "SELECT getenv('HOME')",
    "no SQL": "show me everything",
    "an error at execution": "SELECT CAST(message AS INT) FROM decisions",
    "an error after the first rows": "SELECT CASE WHEN i = 50000 THEN error('no') END FROM range(100000) AS t(i)",
    "a date that Python does not have": "SELECT DATE '20000-01-01'",
    "a time finer than microseconds": "SELECT TIMESTAMP_NS '2026-11-22 00:00:00.000000001'",
}


@pytest.mark.parametrize("statement", REFUSED.values(), ids=REFUSED.keys())
def test_a_query_that_is_not_one_select_over_the_export_is_refused(exported: Path, statement: str) -> None:
    exported.with_suffix(".txt").write_text("secret")
    before = sorted(exported.rglob("*"))
    with pytest.raises(ServiceError) as refused:
        query(exported, statement.format(directory=exported))
    assert "\n" not in refused.value.message
    assert sorted(exported.rglob("*")) == before


async def test_an_empty_log_has_empty_tables(log: Database, tmp_path: Path) -> None:
    assert await export(log, tmp_path) == []
    for table in TABLES:
        assert query(tmp_path, f"SELECT count(*), max(day) FROM {table.name}") == [(0, None)]

"""The export of the log to Parquet: one directory for each table, and in it one for each UTC day.

    DIR/decisions/day=2026-11-22/part.parquet
    DIR/model_calls/day=2026-11-22/part.parquet
    DIR/tool_calls/day=2026-11-22/part.parquet

A second export into the same directory writes only the days that have gained decisions since.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from sqlalchemy import Connection, func, select

from graph_agent.analytics.tables import DECISIONS, TABLES, AnalyticsTable
from graph_agent.db import Database, read_pages
from graph_agent.db.private_file import replace_private_file
from graph_agent.record.statements import read
from graph_agent.record.tables import CLOSED, decision_logs

BATCH = 10_000
"""Rows per read, and per row group."""

_DAY = timedelta(days=1)
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_READ_SECONDS = 300.0
_SUMMARY = b"graph_agent.summary"
"""The key of a file's metadata under which the decisions of its day are counted."""


class ExportedDay(NamedTuple):
    """One day of the log: its date as YYYY-MM-DD, its closed decisions, and True if its files were written."""

    day: str
    decisions: int
    written: bool


class ParquetExport:
    """The export of the closed decisions of `database` to `directory`, which is created if it does not exist.

    A day that the log no longer has, or of which retention has removed decisions, keeps the files it has.
    """

    def __init__(self, database: Database, directory: Path) -> None:
        self._database = database
        self._directory = directory

    async def run(self, since: datetime | None = None, until: datetime | None = None) -> AsyncIterator[ExportedDay]:
        """Export every day that contains a time from `since` to `until`, and yield each of them, oldest first.

        Raises `ServiceError` if the log cannot be read and OSError if a file cannot be written. Every file is complete: an
        interrupted export is continued by the next one.
        """
        start = _EARLIEST if since is None else _start_of_day(since)
        # The next decision may be decades later: an imported one has the time that its file gives.
        while (first := await read(self._database, _first_from(start), seconds=_READ_SECONDS)) is not None:
            day = _start_of_day(first)
            if until is not None and day > until:
                return
            exported = await self._export_day(day)
            if exported is not None:
                yield exported
            start = day + _DAY

    async def _export_day(self, start: datetime) -> ExportedDay | None:
        day = f"{start:%Y-%m-%d}"
        count, last_end = await read(self._database, lambda connection: _summarize(connection, start), seconds=_READ_SECONDS)
        if not count:
            return None
        before = _read_summary(self._path(DECISIONS, day))
        if before is not None and (before[0] > count or before == (count, f"{last_end}")):
            return ExportedDay(day, count, written=False)
        for table in TABLES:
            await self._write(table, day, start, f"{count} {last_end}")
        return ExportedDay(day, count, written=True)

    def _path(self, table: AnalyticsTable, day: str) -> Path:
        return self._directory / table.name / f"day={day}" / "part.parquet"

    async def _write(self, table: AnalyticsTable, day: str, start: datetime, summary: str) -> None:
        path = self._path(table, day)
        # One by one: with `parents` the mode applies to the last one only.
        for directory in (self._directory, path.parent.parent, path.parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        schema = table.schema.with_metadata({_SUMMARY: summary.encode()})
        # Messages are as private here as they are in the log.
        with replace_private_file(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            rows = table.select(start, start + _DAY)
            async for page in read_pages(partial(read, self._database, seconds=_READ_SECONDS), rows, *table.key, size=BATCH):
                writer.write_batch(table.batch(page))


def _start_of_day(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _first_from(at: datetime) -> Callable[[Connection], datetime | None]:
    first = select(func.min(decision_logs.c.created_at)).where(decision_logs.c.created_at >= at)
    return lambda connection: connection.execute(first).scalar_one()


def _summarize(connection: Connection, start: datetime) -> tuple[int, datetime | None]:
    """Return the number of the day's closed decisions and the time at which the last of them ended."""
    columns = decision_logs.c
    row = connection.execute(
        select(func.count(), func.max(columns.ended_at)).where(
            columns.created_at >= start, columns.created_at < start + _DAY, CLOSED
        )
    ).one()
    return row[0], row[1]


def _read_summary(path: Path) -> tuple[int, str] | None:
    """Return the summary of an exported day, or None if it was not exported."""
    if not path.exists():
        return None
    count, _, last_end = pq.read_schema(path).metadata[_SUMMARY].decode().partition(" ")
    return int(count), last_end

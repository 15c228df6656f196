"""`graph-agent log export --format parquet` and `log sql`: the log for analyses."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from graph_agent.analytics.parquet import ExportedDay, ParquetExport
from graph_agent.analytics.sql import run_sql
from graph_agent.audit.filters import DecisionFilter
from graph_agent.cli.database import open_log
from graph_agent.cli.options import AsJson, filter_by, option
from graph_agent.cli.running import print_stderr, wrong_usage
from graph_agent.cli.show import json_line, stdout_console
from graph_agent.db import Database
from graph_agent.reply.text import visible


@filter_by("since", "until")
def query(
    sql: Annotated[str, typer.Argument(metavar="SELECT", help="Run this statement; the tables are in docs/analytics.md.")],
    directory: Annotated[Path | None, option("--from", "DIR", "Read this export instead of the log.")] = None,
    *,
    filters: DecisionFilter,
    as_json: AsJson = False,
) -> None:
    """Run one SELECT over the log, or over an export to Parquet.

    The log is copied to a temporary directory first, so the statement cannot change it; --since and --until copy less. With
    --json, print one object per line.
    """
    with _open_export(directory, filters) as export, run_sql(export, sql) as result:
        if as_json:
            for row in result.rows:
                typer.echo(json_line({name: _to_json(value) for name, value in zip(result.columns, row, strict=True)}))
            return
        table = Table(*map(visible, result.columns), box=None, pad_edge=False)
        for row in result.rows:
            table.add_row(*(visible("" if value is None else str(value)) for value in row))
        stdout_console().print(table)


def export_parquet(directory: Path, filters: DecisionFilter) -> None:
    """Export the log to `directory` and print what was written."""
    if filters != DecisionFilter(since=filters.since, until=filters.until):
        wrong_usage("--format parquet exports whole days: only --since and --until select from them")
    days = _export(directory, filters)
    decisions, written = sum(day.decisions for day in days), sum(day.written for day in days)
    typer.echo(f"decisions: {decisions:,}, days: {len(days):,}, days written: {written:,}, directory: {directory}")


def _export(directory: Path, filters: DecisionFilter) -> list[ExportedDay]:
    async def export(database: Database) -> list[ExportedDay]:
        return [day async for day in ParquetExport(database, directory).run(filters.since, filters.until)]

    with open_log() as (database, run):
        try:
            exported: list[ExportedDay] = run(export(database))
        except OSError as exc:
            wrong_usage(f"{exc.filename or directory} cannot be written: {exc.strerror}")
    return exported


@contextmanager
def _open_export(directory: Path | None, filters: DecisionFilter) -> Iterator[Path]:
    if directory is not None:
        if filters != DecisionFilter():
            wrong_usage("--since and --until select from the log; in an export, select by the column day")
        if not (directory / "decisions").is_dir():
            wrong_usage(f"{directory} contains no export: graph-agent log export --format parquet {directory}")
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="graph-agent-") as temporary:
        if not any(day.decisions for day in _export(Path(temporary), filters)):
            print_stderr("the log has no closed decisions in this range")
        yield Path(temporary)


def _to_json(value: Any) -> Any:
    """Return a value as JSON has it: numbers, booleans and null as they are, all others as text."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)

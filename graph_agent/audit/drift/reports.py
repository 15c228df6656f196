"""Reports that are kept: what a validation or a comparison with a baseline found."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import insert, select

from graph_agent.record.statements import read, write
from graph_agent.record.tables import ReportRow, table_of
from graph_agent.db import Database

_reports = table_of(ReportRow)


class ReportKind(StrEnum):
    DRIFT = "drift"
    VALIDATION = "validation"


async def keep_report(
    database: Database, kind: ReportKind, report_id: str, created_at: datetime, *, passed: bool, report: dict[str, Any]
) -> None:
    """Store a report. Raises `ServiceError` STORAGE_ERROR."""
    row = {"report_id": report_id, "kind": kind.value, "created_at": created_at, "passed": passed, "report": report}
    await write(database, lambda connection: connection.execute(insert(_reports), row) and None)


async def latest_reports(database: Database, kind: ReportKind, limit: int = 20) -> list[dict[str, Any]]:
    """The reports of this kind, newest first."""
    wanted = select(_reports.c.report).where(_reports.c.kind == kind.value).order_by(_reports.c.created_at.desc()).limit(limit)
    return await read(database, lambda connection: list(connection.execute(wanted).scalars()))

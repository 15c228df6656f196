"""Stored reports of validations and of comparisons with a baseline."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from graph_agent.db import Database
from graph_agent.record.sealer import Sealer
from graph_agent.record.statements import write
from graph_agent.record.tables import reports_table
from graph_agent.record.tree.rows import insert_leaf_row
from graph_agent.record.tree.tables import LeafKind


class ReportKind(StrEnum):
    """The kind of a stored report."""

    DRIFT = "drift"
    VALIDATION = "validation"


async def store_report(
    database: Database,
    kind: ReportKind,
    report_id: str,
    created_at: datetime,
    *,
    passed: bool,
    report: dict[str, Any],
    sealer: Sealer,
) -> None:
    """Store a report, which becomes a leaf of the tree. Raises `ServiceError` STORAGE_ERROR."""
    row = {"report_id": report_id, "kind": kind.value, "created_at": created_at, "passed": passed, "report": report}
    await write(database, lambda connection: insert_leaf_row(connection, LeafKind.REPORT, reports_table, row, sealer))

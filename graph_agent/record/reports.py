"""Reports that are stored in the log: rows of their own, each with a leaf in the tree."""

from __future__ import annotations

from graph_agent.db import Database
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.record.statements import write
from graph_agent.record.tables import reports_table
from graph_agent.record.tree.leaves import Sealer, insert_leaf_row
from graph_agent.record.tree.tables import LeafKind


class StoredReport(Frozen):
    """A report that is stored under an id."""

    report_id: str
    created_at: UtcDatetime

    async def store(self, database: Database, sealer: Sealer, kind: str, *, passed: bool) -> None:
        """Store the report, which becomes a leaf of the tree. Raises `ServiceError` STORAGE_ERROR."""
        row = {
            "report_id": self.report_id, "kind": kind, "created_at": self.created_at, "passed": passed, "report": self.to_json()
        }  # fmt: skip
        await write(database, lambda connection: insert_leaf_row(connection, LeafKind.REPORT, reports_table, row, sealer))

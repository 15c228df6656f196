"""The importer: adds the new decisions of an export to the log.

Decisions that are stored already stay as they are. A text is stored with the first new decision that references it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice

from pydantic import Field
from sqlalchemy import Connection, insert, select

from graph_agent.audit.export_reader import ExportedText, invalid_object, read_export
from graph_agent.db import Database
from graph_agent.db.prepared import insert_new
from graph_agent.models.base import Frozen
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.record import DecisionRecord
from graph_agent.record.blobs import store_texts
from graph_agent.record.metrics_hours import forget_hours
from graph_agent.record.projection import call_rows, decision_row, invocation_rows
from graph_agent.record.statements import write
from graph_agent.record.tables import decision_logs, llm_call_logs, tool_invocation_logs
from graph_agent.record.tree.leaves import RecordKey, Sealer, new_leaf
from graph_agent.record.tree.statements import Statement, StatementKind, add_statement
from graph_agent.record.tree.tables import LeafKind

BATCH = 200
"""Decisions per transaction."""


class ImportReport(Frozen):
    """The result of an import. `differing` lists decisions that are stored with another record; they were not changed."""

    imported: int = 0
    present: int = 0
    differing: list[str] = Field(default_factory=list)
    texts: int = 0


async def import_records(database: Database, pieces: Iterable[str], *, record_key: RecordKey = None) -> ImportReport:
    """Import an export; see `LogQueryService.import_logs`."""
    sealer = Sealer(record_key)
    texts: dict[str, str] = {}
    records = _read_records(pieces, texts)
    reports = []
    while batch := list(islice(records, BATCH)):
        reports.append(await _import_batch(database, batch, texts, sealer))
    return ImportReport(
        imported=sum(report.imported for report in reports),
        present=sum(report.present for report in reports),
        differing=[name for report in reports for name in report.differing],
        texts=max((report.texts for report in reports), default=0),
    )


def _read_records(pieces: Iterable[str], texts: dict[str, str]) -> Iterator[DecisionRecord]:
    """Yield the records of an export, and add the texts that come before each of them to `texts`."""
    for exported in read_export(pieces):
        if isinstance(exported, ExportedText):
            if digest(exported.text) != exported.digest:
                raise invalid_object(exported.number, "its text does not match its digest")
            texts[exported.digest] = exported.text
        elif exported.record is None:
            raise invalid_object(exported.number, "it is not a record of a decision")
        else:
            yield exported.record


async def _import_batch(database: Database, batch: list[DecisionRecord], texts: dict[str, str], sealer: Sealer) -> ImportReport:
    """Import some records in one transaction. `texts` are all texts that the file has contained so far."""
    by_id = {record.header.decision_id: record for record in batch}
    plain = {name: record.to_json() for name, record in by_id.items()}

    def work(connection: Connection) -> ImportReport:
        stored = select(decision_logs.c.decision_id, decision_logs.c.record).where(
            decision_logs.c.decision_id.in_(sorted(by_id))
        )
        existing = {row.decision_id: row.record for row in connection.execute(stored)}
        new = [record for name, record in by_id.items() if name not in existing]
        rows = [plain[record.header.decision_id] for record in new]
        referenced: set[str] = set()
        for record in new:
            named = {name: texts[name] for name in record.header.digests.values() if name in texts}
            store_texts(connection, named, record.header.started_at)
            referenced |= named.keys()
        if new:
            for decision in map(decision_row, rows):
                leaf = new_leaf(LeafKind.DECISION, decision["decision_id"], decision["record"], sealer)
                connection.execute(insert(decision_logs), {**decision, "salt": leaf.salt})
                leaf.store(connection)
            insert_new(connection, tool_invocation_logs, [row for record in rows for row in invocation_rows(record)])
            insert_new(connection, llm_call_logs, [row for record in rows for row in call_rows(record)])
            imported = Statement(statement=StatementKind.IMPORTED, at=datetime.now(UTC), count=len(new), verified=False)
            add_statement(connection, imported, sealer)
            forget_hours(connection, lambda column: column.in_([record.header.decision_id for record in new]))
        differing = [name for name, text in existing.items() if text != canonical_json(plain[name])]
        return ImportReport(
            imported=len(new), present=len(existing) - len(differing), differing=sorted(differing), texts=len(referenced)
        )

    return await write(database, work)

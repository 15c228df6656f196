"""The sources of records to replay: the log, or an exported file alone. Each record comes with the texts it references."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from graph_agent.audit.export import read_closed
from graph_agent.audit.export_reader import ExportedText, read_export
from graph_agent.audit.filters import DecisionFilter
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.record import DecisionRecord
from graph_agent.ports import LLMAdapter
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import AS_RECORDED, Replayer, WhatIf
from graph_agent.replays.report import ReplayReport

_CHUNK_CHARACTERS = 65536


@dataclass(frozen=True, slots=True)
class LoadedRecord:
    """A record with its texts. `record` is None if the stored value is not valid; `name` identifies it in both cases."""

    name: str
    record: DecisionRecord | None
    texts: Mapping[str, str]

    async def replay(self, replayer: Replayer, what_if: WhatIf = AS_RECORDED, live: LLMAdapter | None = None) -> ReplayReport:
        """Replay the decision in a process that does nothing else."""
        if self.record is None:
            return ReplayReport(self.name, (), "the record cannot be read")
        return await replayer.replay(self.record, self.texts, what_if, live=live, interruptible=True)


async def load_from_log(database: Database, decision_id: str) -> LoadedRecord:
    """Load one decision. Raises `ServiceError` DECISION_NOT_FOUND, also if the turn is not closed yet."""
    writer = DatabaseAuditWriter(database)
    try:
        record = await writer.load(decision_id)
    except ValidationError:
        return LoadedRecord(decision_id, None, {})
    if not isinstance(record, DecisionRecord):
        state = "is not closed yet" if record is not None else "does not exist"
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, f"The decision {decision_id} {state}.")
    return LoadedRecord(decision_id, record, await writer.texts(list(record.header.digests.values())))


async def read_log(database: Database, filters: DecisionFilter) -> AsyncIterator[LoadedRecord]:
    """Yield every closed decision that matches `filters`, oldest first."""
    known: dict[str, str] = {}
    async for rows, texts in read_closed(database, filters):
        # A new dict, because another thread may be sending the earlier one to a worker.
        known = {**known, **texts}
        for row in rows:
            try:
                record = DecisionRecord.model_validate_json(row.record)
            except ValidationError:
                # The log was edited.
                record = None
            yield LoadedRecord(row.decision_id, record, known)


def read_file(path: Path) -> Iterator[LoadedRecord]:
    """Yield every decision of an exported file, of either format. Raises `ServiceError` INVALID_FORMAT."""
    texts: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for exported in read_export(iter(lambda: file.read(_CHUNK_CHARACTERS), "")):
                if isinstance(exported, ExportedText):
                    texts[exported.digest] = exported.text
                else:
                    yield LoadedRecord(exported.decision_id, exported.record, texts)
    except (OSError, UnicodeDecodeError) as exc:
        raise ServiceError(ServiceErrorCode.INVALID_FORMAT, f"the file {path} cannot be read as text") from exc

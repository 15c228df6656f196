"""The way into the log: what an export gave, read one object at a time and checked.

Decisions that stand already are left as they are; a text is taken in with the first new decision that names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import Field, ValidationError
from sqlalchemy import Connection, insert, select

from graph_agent.record.blobs import keep_texts
from graph_agent.record.chain import ChainWriter
from graph_agent.record.projection import call_rows, decision_row, invocation_rows
from graph_agent.record.statements import write
from graph_agent.record.tables import DecisionLog, LLMCallLog, ToolInvocationLog, table_of
from graph_agent.clock import SystemClock
from graph_agent.db import Database
from graph_agent.db.insert import insert_new
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.record import DecisionRecord, RecordHeader

BATCH = 200
"""Decisions of one transaction."""
MAX_OBJECT = 64 * 1024 * 1024
"""Characters of one object at most; more is no export of ours."""

_BETWEEN_OBJECTS = " \t\r\n,[]"
"""Commas and brackets are all that the two formats differ in."""
_CHUNK = 65536

_decisions = table_of(DecisionLog)
_invocations = table_of(ToolInvocationLog)
_calls = table_of(LLMCallLog)


class ImportReport(Frozen):
    """What an import did. `differing` names decisions that stand already with another record; they were left as they are."""

    imported: int = 0
    present: int = 0
    differing: list[str] = Field(default_factory=list)
    texts: int = 0


def read_objects(pieces: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The objects of an exported text of either format, one at a time. Raises `ServiceError` INVALID_FORMAT."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    pending, place, number = "", 0, 0
    source = iter(pieces)
    exhausted = False
    while True:
        while place < len(pending) and pending[place] in _BETWEEN_OBJECTS:
            place += 1
        try:
            value, place = decoder.raw_decode(pending, place)
        except (ValueError, RecursionError) as exc:
            if exhausted and place >= len(pending):
                return
            if exhausted or len(pending) - place > MAX_OBJECT or isinstance(exc, RecursionError):
                raise _invalid(number + 1, "it is not JSON") from None
            more = list(_at_least(source, max(_CHUNK, len(pending) - place)))
            exhausted = not more
            pending, place = pending[place:] + "".join(more), 0
            continue
        number += 1
        if not isinstance(value, dict):
            raise _invalid(number, "it is not an object")
        yield value


async def import_records(database: Database, pieces: Iterable[str], *, chain_key: bytes | None = None) -> ImportReport:
    """See `LogQueryService.import_logs`."""
    report = ImportReport()
    chain = ChainWriter(chain_key, clock=SystemClock())
    batch: list[DecisionRecord] = []
    texts: dict[str, str] = {}
    for number, value in enumerate(read_objects(pieces), start=1):
        match value:
            case {"type": "blob", "digest": str(name), "text": str(text)} if digest(text) == name:
                texts[name] = text
            case {"type": "decision", "record": dict(record)}:
                try:
                    batch.append(DecisionRecord.model_validate(record))
                except ValidationError:
                    raise _invalid(number, "it is not a record of a decision") from None
            case _:
                raise _invalid(number, "it is neither a decision nor a text under its own digest")
        if len(batch) == BATCH:
            report = _added(report, await _take_in(database, batch, texts, chain))
            batch = []
    return _added(report, await _take_in(database, batch, texts, chain)) if batch else report


async def _take_in(database: Database, batch: list[DecisionRecord], texts: dict[str, str], chain: ChainWriter) -> ImportReport:
    """One transaction. `texts` are all that the file has told so far; `chain` seals the records as they come in."""
    by_id = {record.header.decision_id: record for record in batch}

    def work(connection: Connection) -> ImportReport:
        stored = select(_decisions.c.decision_id, _decisions.c.record).where(_decisions.c.decision_id.in_(sorted(by_id)))
        standing = {row.decision_id: row.record for row in connection.execute(stored)}
        new = [record for name, record in by_id.items() if name not in standing]
        kept: set[str] = set()
        for record in new:
            named = {name: texts[name] for name in _named(record.header) if name in texts}
            keep_texts(connection, named, record.header.started_at)
            kept |= named.keys()
        if new:
            connection.execute(insert(_decisions), [decision_row(record) for record in new])
        insert_new(connection, _invocations, [row for record in new for row in invocation_rows(record)])
        insert_new(connection, _calls, [row for record in new for row in call_rows(record)])
        for record in new:
            chain.append(connection, record.header.decision_id, canonical_json(record.to_json()))
        differing = [name for name, text in standing.items() if text != canonical_json(by_id[name].to_json())]
        return ImportReport(
            imported=len(new), present=len(standing) - len(differing), differing=sorted(differing), texts=len(kept)
        )

    return await write(database, work)


def _named(header: RecordHeader) -> tuple[str, str, str, str]:
    return header.constitution, header.tools, header.settings, header.prompt


def _added(one: ImportReport, other: ImportReport) -> ImportReport:
    return ImportReport(
        imported=one.imported + other.imported,
        present=one.present + other.present,
        differing=[*one.differing, *other.differing],
        texts=max(one.texts, other.texts),
    )


def _at_least(source: Iterator[str], characters: int) -> Iterator[str]:
    while characters > 0 and (piece := next(source, None)) is not None:
        characters -= len(piece)
        yield piece


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _invalid(number: int, why: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.INVALID_FORMAT, f"object {number} of the file cannot be imported: {why}")

"""The export of the log: closed decisions as canonical records, with the texts they reference.

    {"digest":"2301…","text":"# Constitution…","type":"blob"}
    {"record":{"decision":…,"entries":…,"header":…},"type":"decision"}

A text comes before the first decision that references it, so that a reader can process the file in one pass. The file alone is
enough for a replay on another machine. The text of each record is the stored one, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, or_, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import SNAPSHOT_TEXTS
from graph_agent.record.statements import read
from graph_agent.record.tables import CLOSED, decision_logs, record_blobs

FORMATS = ("jsonl", "json")
BATCH = 200
"""Decisions per read."""

_DELIMITERS = {"jsonl": ("", "\n", "\n"), "json": ("[\n", ",\n", "\n]\n")}
"""The text before, between and after the objects."""
_BATCH_SECONDS = 60.0


class LogExport:
    """One export. The constructor raises `ServiceError` INVALID_FORMAT for an unknown format."""

    def __init__(self, database: Database, format: str, filters: DecisionFilter) -> None:  # noqa: A002 (the name of the parameter in the public API)
        if format not in FORMATS:
            raise ServiceError(ServiceErrorCode.INVALID_FORMAT, f"the format must be one of {', '.join(FORMATS)}")
        self._database = database
        self._delimiters = _DELIMITERS[format]
        self._filters = filters
        self._exported_texts: set[str] = set()

    async def pieces(self) -> AsyncIterator[str]:
        """Yield the text of the export in pieces."""
        before, between, after = self._delimiters
        first = True
        async for text in self._objects():
            yield f"{before if first else between}{text}"
            first = False
        yield f"{before}{after.lstrip()}" if first else after

    async def _objects(self) -> AsyncIterator[str]:
        last: tuple[datetime, str] | None = None
        while True:
            rows, texts = await read(self._database, self._read_batch(last), seconds=_BATCH_SECONDS)
            for row in rows:
                for name in header_digests(row.header):
                    if name in texts and name not in self._exported_texts:
                        self._exported_texts.add(name)
                        yield canonical_json({"type": "blob", "digest": name, "text": texts[name]})
                # Not parsed and serialised again, so that the exported record is the stored one to the last byte.
                yield f'{{"record":{row.record},"type":"decision"}}'
            if len(rows) < BATCH:
                return
            last = (rows[-1].created_at, rows[-1].decision_id)

    def _read_batch(self, after: tuple[datetime, str] | None) -> Callable[[Connection], tuple[Sequence[Any], dict[str, str]]]:
        def work(connection: Connection) -> tuple[Sequence[Any], dict[str, str]]:
            rows = connection.execute(self._next_decisions(connection, after)).all()
            needed = {name for row in rows for name in header_digests(row.header)} - self._exported_texts
            texts = select(record_blobs.c.digest, record_blobs.c.text).where(record_blobs.c.digest.in_(sorted(needed)))
            return rows, {row.digest: row.text for row in connection.execute(texts)}

        return work

    def _next_decisions(self, connection: Connection, after: tuple[datetime, str] | None) -> Select[Any]:
        columns = decision_logs.c
        query = (
            select(columns.created_at, columns.decision_id, columns.header, columns.record)
            .where(*self._filters.conditions(connection), CLOSED)
            .order_by(columns.created_at, columns.decision_id)
            .limit(BATCH)
        )
        if after is not None:
            # The first condition lets the database start within the index; the second one continues among equal times.
            query = query.where(
                columns.created_at >= after[0], or_(columns.created_at > after[0], columns.decision_id > after[1])
            )
        return query


def header_digests(header: str | None) -> list[str]:
    """Return the digests of the texts that a header, given as canonical JSON, references."""
    if header is None:
        return []
    fields = json.loads(header)
    return [fields[name] for name in (*SNAPSHOT_TEXTS, "policy") if name in fields]

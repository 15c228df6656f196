"""The export of the log: closed decisions as canonical records, with the texts they reference.

    {"digest":"2301…","text":"# Constitution…","type":"blob"}
    {"record":{"decision":…,"entries":…,"header":…},"type":"decision"}

A text comes before the first decision that references it, so that a reader can process the file in one pass. The file alone is
enough for a replay on another machine. The text of each record is the stored one, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, or_, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import SNAPSHOT_TEXTS
from graph_agent.record.statements import read
from graph_agent.record.tables import CLOSED, decision_logs, record_blobs

BATCH = 200
"""Decisions per read."""

_DELIMITERS = {"jsonl": ("", "\n", "\n"), "json": ("[\n", ",\n", "\n]\n")}
"""The text before, between and after the objects."""
_BATCH_SECONDS = 60.0


def export_pieces(database: Database, format: str, filters: DecisionFilter) -> AsyncIterator[str]:  # noqa: A002 (the name of the parameter in the public API)
    """Yield the text of an export in pieces. Raises `ServiceError` INVALID_FORMAT immediately."""
    if format not in _DELIMITERS:
        raise ServiceError(ServiceErrorCode.INVALID_FORMAT, f"the format must be one of {', '.join(_DELIMITERS)}")
    return _delimited(_objects(database, filters), *_DELIMITERS[format])


async def _delimited(objects: AsyncIterator[str], before: str, between: str, after: str) -> AsyncIterator[str]:
    first = True
    async for text in objects:
        yield f"{before if first else between}{text}"
        first = False
    yield f"{before}{after.lstrip()}" if first else after


async def _objects(database: Database, filters: DecisionFilter) -> AsyncIterator[str]:
    async for rows, texts in read_closed(database, filters):
        for row in rows:
            for name in _header_digests(row.header):
                if (text := texts.pop(name, None)) is not None:
                    yield canonical_json({"type": "blob", "digest": name, "text": text})
            # Not parsed and serialised again, so that the exported record is the stored one to the last byte.
            yield f'{{"record":{row.record},"type":"decision"}}'


async def read_closed(database: Database, filters: DecisionFilter) -> AsyncIterator[tuple[Sequence[Any], dict[str, str]]]:
    """Yield the closed decisions that match `filters` in batches, oldest first.

    Each batch comes with the texts, by digest, that its decisions reference and those before it do not.
    """
    known: set[str] = set()
    last: tuple[datetime, str] | None = None
    while True:
        rows, texts = await read(
            database, partial(_read_batch, filters=filters, after=last, known=known), seconds=_BATCH_SECONDS
        )
        known |= texts.keys()
        yield rows, texts
        if len(rows) < BATCH:
            return
        last = (rows[-1].created_at, rows[-1].decision_id)


def _read_batch(
    connection: Connection, filters: DecisionFilter, after: tuple[datetime, str] | None, known: set[str]
) -> tuple[Sequence[Any], dict[str, str]]:
    """Return the next decisions, and the texts that they reference and that are not `known`."""
    columns = decision_logs.c
    query = (
        select(columns.created_at, columns.decision_id, columns.header, columns.record)
        .where(*filters.conditions(connection), CLOSED)
        .order_by(columns.created_at, columns.decision_id)
        .limit(BATCH)
    )
    if after is not None:
        # The first condition lets the database start within the index; the second one continues among equal times.
        query = query.where(columns.created_at >= after[0], or_(columns.created_at > after[0], columns.decision_id > after[1]))
    rows = connection.execute(query).all()
    needed = {name for row in rows for name in _header_digests(row.header)} - known
    texts = select(record_blobs.c.digest, record_blobs.c.text).where(record_blobs.c.digest.in_(sorted(needed)))
    return rows, {row.digest: row.text for row in connection.execute(texts)}


def _header_digests(header: str | None) -> list[str]:
    """Return the digests of the texts that a header, given as canonical JSON, references."""
    if header is None:
        return []
    fields = json.loads(header)
    return [fields[name] for name in (*SNAPSHOT_TEXTS, "policy") if name in fields]

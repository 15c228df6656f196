"""The way out of the log: every closed decision as its canonical record, with the texts it names.

    {"digest":"2301…","text":"# Constitution…","type":"blob"}
    {"record":{"decision":…,"entries":…,"header":…},"type":"decision"}

A line with a text stands before the first decision that names it, so a reader needs to look back only, and one file is all that
a replay on another machine needs. The record's text is the stored one, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, or_, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.record.statements import read
from graph_agent.record.tables import DecisionLog, RecordBlob, table_of
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.canonical import canonical_json

FORMATS = ("jsonl", "json")
BATCH = 200
"""Decisions of one read."""

_AROUND = {"jsonl": ("", "\n", "\n"), "json": ("[\n", ",\n", "\n]\n")}
"""What stands before, between and after the objects."""
_BATCH_SECONDS = 60.0

_decisions = table_of(DecisionLog)
_blobs = table_of(RecordBlob)


class LogExport:
    """One export. Raises `ServiceError` INVALID_FORMAT for a format there is none of."""

    def __init__(self, database: Database, format: str, filters: DecisionFilter) -> None:  # noqa: A002 (its name everywhere)
        if format not in FORMATS:
            raise ServiceError(ServiceErrorCode.INVALID_FORMAT, f"the format must be one of {', '.join(FORMATS)}")
        self._database = database
        self._around = _AROUND[format]
        self._filters = filters
        self._told: set[str] = set()

    async def pieces(self) -> AsyncIterator[str]:
        """The text, piece by piece."""
        before, between, after = self._around
        first = True
        async for text in self._objects():
            yield f"{before if first else between}{text}"
            first = False
        yield f"{before}{after.lstrip()}" if first else after

    async def _objects(self) -> AsyncIterator[str]:
        reached: tuple[datetime, str] | None = None
        while True:
            rows, texts = await read(self._database, self._batch(reached), seconds=_BATCH_SECONDS)
            for row in rows:
                for name in header_digests(row.header):
                    if name in texts and name not in self._told:
                        self._told.add(name)
                        yield canonical_json({"type": "blob", "digest": name, "text": texts[name]})
                # Put together by hand: what was stored is what is exported, to the last byte.
                yield f'{{"record":{row.record},"type":"decision"}}'
            if len(rows) < BATCH:
                return
            reached = (rows[-1].created_at, rows[-1].decision_id)

    def _batch(self, after: tuple[datetime, str] | None) -> Callable[[Connection], tuple[Sequence[Any], dict[str, str]]]:
        def work(connection: Connection) -> tuple[Sequence[Any], dict[str, str]]:
            rows = connection.execute(self._wanted(connection, after)).all()
            needed = {name for row in rows for name in header_digests(row.header)} - self._told
            texts = select(_blobs.c.digest, _blobs.c.text).where(_blobs.c.digest.in_(sorted(needed)))
            return rows, {row.digest: row.text for row in connection.execute(texts)}

        return work

    def _wanted(self, connection: Connection, after: tuple[datetime, str] | None) -> Select[Any]:
        columns = _decisions.c
        wanted = (
            select(columns.created_at, columns.decision_id, columns.header, columns.record)
            .where(*self._filters.conditions(connection), columns.record.is_not(None))
            .order_by(columns.created_at, columns.decision_id)
            .limit(BATCH)
        )
        if after is not None:
            # The first condition alone bounds the walk along the index; the second one keeps the place among equal times.
            wanted = wanted.where(
                columns.created_at >= after[0], or_(columns.created_at > after[0], columns.decision_id > after[1])
            )
        return wanted


def header_digests(header: str | None) -> list[str]:
    """The texts a header, as canonical JSON, names."""
    if header is None:
        return []
    told = json.loads(header)
    return [told[name] for name in ("constitution", "tools", "settings", "prompt")]

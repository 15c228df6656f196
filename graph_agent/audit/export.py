"""The export of the log: closed decisions as canonical records, with the texts they reference.

    {"digest":"2301…","text":"# Constitution…","type":"blob"}
    {"decision_id":…,"model_calls":[…],"tool_calls":[…],"type":"decision",…,"record":{"decision":…,"entries":…,"header":…}}

A text comes before the first decision that references it, so that a reader can process the file in one pass. The file alone is
enough for a replay on another machine. The text of each record is the stored one, byte for byte. The fields before the record
repeat what queries need, so that one SELECT over the file works without a nested path; `docs/export.md` lists them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, or_, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import TokenUsage
from graph_agent.models.record import LATER_TEXTS, SNAPSHOT_TEXTS
from graph_agent.record.projection import decision_columns, invocation_rows, model_calls
from graph_agent.record.statements import read
from graph_agent.record.tables import CLOSED, decision_logs, record_blobs

BATCH = 200
"""Decisions per read."""

DECISION_FIELDS = (
    "decision_id", "conversation_id", "user_id", "message", "response_text", "intent_type", "confidence", "decision_type",
    "outcome_category", "category", "status", "created_at", "ended_at", "duration_ms", "model", "response_model",
    "constitution", "iterations", *TokenUsage.model_fields,
)  # fmt: skip
"""The columns of `decision_logs` that an exported decision repeats before its record."""
CALL_FIELDS = {
    "tool_calls": (
        "sequence", "tool_name", "parameters", "disposition", "gate", "success", "error_code", "error_message", "duration_ms",
        "invoked_at",
    ),
    "model_calls": (
        "sequence", "finish_reason", "error", "response_model", *TokenUsage.model_fields, "duration_ms", "request_digest"
    ),
}  # fmt: skip
"""Its two lists of calls, with the fields of each."""

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
            # The stored text of the record, and not a new one of what was parsed, so that it is exported to the last byte.
            yield f'{canonical_json(_fields(row.record))[:-1]},"record":{row.record}}}'


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of an exported decision before its record: the columns that the log projects from the record."""
    try:
        record = json.loads(text)
        columns = decision_columns(record)
        calls = {"tool_calls": invocation_rows(record), "model_calls": model_calls(record["entries"])}
    except (ValueError, KeyError, TypeError, AttributeError):
        # The log was edited. The record is exported as it is, so that a reader of the file can report it.
        return {"type": "decision"}
    lists = {name: [_selected(row, CALL_FIELDS[name]) for row in rows] for name, rows in calls.items()}
    return {"type": "decision", **_selected(columns, DECISION_FIELDS), **lists}


def _selected(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: _plain(row.get(name)) for name in names}


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


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
    return [fields[name] for name in (*SNAPSHOT_TEXTS, *LATER_TEXTS) if name in fields]

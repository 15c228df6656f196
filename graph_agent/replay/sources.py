"""Where records to replay come from: the log, or an exported file alone. Each one comes with the texts it names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.importer import read_objects
from graph_agent.audit.queries import LogQueryService
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.record import DecisionRecord

_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Found:
    """A record, or None where what stands there is none; `name` tells it in either case."""

    name: str
    record: DecisionRecord | None
    texts: Mapping[str, str]


async def one_of_log(database: Database, decision_id: str) -> Found:
    """One decision. Raises `ServiceError` DECISION_NOT_FOUND, also for a turn that is not closed yet."""
    writer = DatabaseAuditWriter(database)
    try:
        record = await writer.load(decision_id)
    except ValidationError:
        return Found(decision_id, None, {})
    if not isinstance(record, DecisionRecord):
        state = "is not closed yet" if record is not None else "does not exist"
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, f"The decision {decision_id} {state}.")
    header = record.header
    digests = [header.constitution, header.tools, header.settings, header.prompt]
    return Found(decision_id, record, await writer.texts(digests))


async def all_of_log(database: Database, filters: DecisionFilter) -> AsyncIterator[Found]:
    """Every closed decision that `filters` mean, oldest first."""
    texts: dict[str, str] = {}
    number = 0
    async for piece in LogQueryService(database).export_logs("jsonl", filters):
        if not piece.strip():
            continue
        number += 1
        found = _found(json.loads(piece), number, texts)
        if found is not None:
            yield found


def all_of_file(path: Path) -> Iterator[Found]:
    """Every decision of an exported file, of either format. Raises `ServiceError` INVALID_FORMAT."""
    texts: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, value in enumerate(read_objects(iter(lambda: file.read(_CHUNK), "")), start=1):
                found = _found(value, number, texts)
                if found is not None:
                    yield found
    except (OSError, UnicodeDecodeError) as exc:
        raise ServiceError(ServiceErrorCode.INVALID_FORMAT, f"the file {path} cannot be read as text") from exc


def _found(value: dict[str, Any], number: int, texts: dict[str, str]) -> Found | None:
    match value:
        case {"type": "blob", "digest": str(name), "text": str(text)}:
            texts[name] = text
            return None
        case {"type": "decision", "record": dict(record)}:
            header = record.get("header")
            told = header.get("decision_id") if isinstance(header, dict) else None
            name = told if isinstance(told, str) else f"object {number}"
            try:
                return Found(name, DecisionRecord.model_validate(record), texts)
            except ValidationError:
                return Found(name, None, texts)
        case _:
            raise ServiceError(ServiceErrorCode.INVALID_FORMAT, f"object {number} is neither a decision nor a text of one")

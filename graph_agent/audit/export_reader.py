"""The reader of exports: it parses a JSON array or JSON lines object by object.

The file is untrusted. Its size, nesting and ids are checked here, so that a replay need not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import MAX_INTEGER, DecisionRecord, EntryKind
from graph_agent.reply.text import visible

MAX_OBJECT = 64 * 1024 * 1024
"""Maximum number of characters of one object; an export of this program has none that is larger."""
MAX_TEXTS = 256 * 1024 * 1024
"""Maximum number of characters of all shared texts of a file: they are kept in memory while it is read."""
MAX_DEPTH = 200
"""Maximum nesting of an object. A deeper one could exhaust the stack of the code that processes it."""

YEARS = range(1970, 3000)
"""The years in which a decision can have been made."""

_DELIMITERS = re.compile(r"[ \t\r\n,\[\]]*")
"""Matches the text between two objects."""
_CHUNK = 65536
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ExportedText:
    """A shared text, and the digest that the file gives for it. A replay reports a wrong digest as a difference."""

    number: int
    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class ExportedDecision:
    """A decision; `record` is None if the file contains something else than a valid record under this id."""

    number: int
    decision_id: str
    record: DecisionRecord | None


def read_export(pieces: Iterable[str]) -> Iterator[ExportedText | ExportedDecision]:
    """Yield the texts and decisions of an export. Raises `ServiceError` INVALID_FORMAT, which names the invalid object."""
    characters = 0
    for number, value in enumerate(_read_objects(pieces), start=1):
        match value:
            case {"type": "blob", "digest": str(name), "text": str(text)}:
                characters += len(text)
                if characters > MAX_TEXTS:
                    raise invalid_object(number, "the texts of the file are too large together")
                yield ExportedText(number, name, text)
            case {"type": "decision", "record": dict(record)}:
                yield _decision(number, record)
            case _:
                raise invalid_object(number, "it is neither a decision nor a text")


def invalid_object(number: int, why: str) -> ServiceError:
    """Return the error for an object that is not part of an export."""
    return ServiceError(ServiceErrorCode.INVALID_FORMAT, f"object {number} of the file cannot be read: {why}")


def _decision(number: int, value: dict[str, Any]) -> ExportedDecision:
    header = value.get("header")
    decision_id = header.get("decision_id") if isinstance(header, dict) else None
    # Ids are printed by many commands, and a control character in one could forge a line of their output.
    if not isinstance(decision_id, str) or not _UUID.fullmatch(decision_id):
        raise invalid_object(number, "its decision id is not a UUID")
    try:
        record = DecisionRecord.model_validate(value)
        for entry in record.entries:
            if entry.kind is EntryKind.MODEL:
                LLMResponse.model_validate(entry.result)
        canonical_json(value).encode()
    except ValueError:
        return ExportedDecision(number, decision_id, None)
    if max(_columns(record)) > MAX_INTEGER:
        raise invalid_object(number, "it has a number that is too large")
    # Exports and reports add days to times.
    if not all(year in YEARS for year in (record.header.started_at.year, record.ended_at.year)):
        raise invalid_object(number, f"its times are not in the years {YEARS[0]} to {YEARS[-1]}")
    context = record.header.context
    for name, text in (("user", context.user_id), ("conversation", context.conversation_id)):
        if visible(text) != text or {"\n", "\t"}.intersection(text):
            raise invalid_object(number, f"its {name} id contains hidden characters")
    return ExportedDecision(number, decision_id, record)


def _columns(record: DecisionRecord) -> Iterator[int]:
    """Yield the numbers that get a column of their own. Those of tokens are limited by their model."""
    yield from (record.iterations, record.duration_ms)
    yield from (entry.ms for entry in record.entries)
    for call in record.invocations:
        yield from (call.sequence, call.duration_ms)


def _read_objects(pieces: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a text that is either one JSON array or a sequence of JSON objects."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    buffer, position, number = "", 0, 0
    delimiters, is_array = "", False
    source = iter(pieces)
    exhausted = False
    while True:
        found = _DELIMITERS.match(buffer, position)
        assert found is not None  # it matches the empty text too
        delimiters += "".join(found[0].split())
        position = found.end()
        if len(delimiters) > len("[]"):
            raise invalid_object(number + 1, "it is not JSON")
        try:
            value, position = decoder.raw_decode(buffer, position)
        except RecursionError:
            raise invalid_object(number + 1, "it is nested too deeply") from None
        except ValueError:
            # Either the object is invalid, or it is not complete yet and more text has to be read.
            if exhausted and position >= len(buffer):
                if delimiters not in (("]" if is_array else "",) if number else ("", "[]")):
                    raise invalid_object(number + 1, "the file is incomplete or not JSON") from None
                return
            if exhausted or len(buffer) - position > MAX_OBJECT:
                raise invalid_object(number + 1, "it is not JSON" if exhausted else "it is too large") from None
            # Doubling the text each time keeps the total cost of reading one large object linear.
            more = list(_take(source, max(_CHUNK, len(buffer) - position)))
            exhausted = not more
            buffer, position = buffer[position:] + "".join(more), 0
            continue
        number += 1
        if number == 1:
            is_array = delimiters == "["
        if delimiters != (("[" if number == 1 else ",") if is_array else ""):
            raise invalid_object(number, "it is not JSON")
        delimiters = ""
        if not isinstance(value, dict):
            raise invalid_object(number, "it is not an object")
        if _is_deeper(value, MAX_DEPTH):
            raise invalid_object(number, "it is nested too deeply")
        yield value


def _is_deeper(value: Any, limit: int) -> bool:
    # Level by level and without recursion, because the value may be too deep for it.
    level = [value]
    for _ in range(limit):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _take(source: Iterator[str], characters: int) -> Iterator[str]:
    while characters > 0 and (piece := next(source, None)) is not None:
        characters -= len(piece)
        yield piece


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")

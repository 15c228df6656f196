"""Out of one log and into another, byte for byte, and nothing else gets in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graph_agent.audit.export import BATCH
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.db import Database, migrate
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.canonical import canonical_json, digest
from tests.audit.made import NOON, TEXTS, made, put


async def exported(log: Database, form: str = "jsonl", filters: DecisionFilter | None = None) -> str:
    return "".join([piece async for piece in LogQueryService(log).export_logs(form, filters)])


@pytest.fixture
def other(tmp_path: Path) -> Any:
    database = Database.open(f"sqlite:///{tmp_path / 'other.db'}")
    migrate(database, "graph_agent.record")
    yield database
    database.close_now()


async def test_a_line_with_a_text_stands_before_the_first_decision_that_names_it(log: Database) -> None:
    first, second = made(1), made(2, constitution="another")
    put(log, first, second, texts={digest("another"): "another"})
    lines = [json.loads(line) for line in (await exported(log)).splitlines()]
    assert [line["type"] for line in lines] == ["blob", "blob", "blob", "decision", "blob", "decision"]
    assert {line["digest"]: line["text"] for line in lines if line["type"] == "blob"} == {**TEXTS, digest("another"): "another"}
    assert [line["record"] for line in lines if line["type"] == "decision"] == [first.to_json(), second.to_json()]
    assert canonical_json(first.to_json()) in await exported(log)


@pytest.mark.parametrize("form", ["jsonl", "json"])
async def test_what_was_exported_is_imported_and_exported_again_the_same(log: Database, other: Database, form: str) -> None:
    calls = ({"result": {"tasks": []}}, {"success": False, "error_code": "NOT_FOUND"})
    records = [made(number, at=NOON, tokens=number, calls=calls) for number in range(1, BATCH + 20)]
    put(log, *records)
    text = await exported(log, form)
    if form == "json":
        assert len(json.loads(text)) == len(records) + len(TEXTS)
    service = LogQueryService(other)
    pieces = [text[start : start + 700] for start in range(0, len(text), 700)]
    report = await service.import_logs(pieces)
    assert (report.imported, report.present, report.differing, report.texts) == (len(records), 0, [], 3)
    assert await exported(other, form) == text
    for record in (records[0], records[-1]):
        there = await service.get_decision_trace(record.header.decision_id)
        here = await LogQueryService(log).get_decision_trace(record.header.decision_id)
        assert there == here
    again = await service.import_logs([text])
    assert (again.imported, again.present) == (0, len(records))


async def test_only_closed_decisions_that_are_meant_are_exported(log: Database) -> None:
    put(log, made(1), made(2, user="bob"))
    await DatabaseAuditWriter(log).write_decision_log(
        decision_id="open", conversation_id="c", user_id="bob", message="hi", header=made(3).header
    )
    lines = (await exported(log, filters=DecisionFilter(user_id="bob"))).splitlines()
    assert [json.loads(line)["record"]["header"]["decision_id"] for line in lines if '"type":"decision"' in line] == [
        made(2).header.decision_id
    ]


@pytest.mark.parametrize(("form", "text"), [("jsonl", ""), ("json", "[\n]\n")])
async def test_an_empty_log_exports_to_an_empty_file_of_its_format(log: Database, form: str, text: str) -> None:
    assert await exported(log, form) == text
    assert (await LogQueryService(log).import_logs([text])).imported == 0


def test_a_format_there_is_none_of_is_refused_at_once(log: Database) -> None:
    with pytest.raises(ServiceError) as refused:
        LogQueryService(log).export_logs("xml")
    assert refused.value.code is ServiceErrorCode.INVALID_FORMAT


async def test_a_decision_that_stands_with_another_record_is_left_and_named(log: Database, other: Database) -> None:
    put(log, made(1, message="call mom"))
    put(other, made(1, message="call dad"))
    report = await LogQueryService(other).import_logs([await exported(log)])
    assert (report.imported, report.differing) == (0, [made(1).header.decision_id])
    assert (await LogQueryService(other).get_decision_trace(made(1).header.decision_id)).decision.message == "call dad"


GOOD = canonical_json({"type": "decision", "record": made(1).to_json()})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello", "object 1 of the file cannot be imported: it is not JSON"),
        (f"{GOOD}\n{GOOD[:-9]}", "object 2 of the file cannot be imported: it is not JSON"),
        ("7\n", "object 1 of the file cannot be imported: it is not an object"),
        ('{"type":"decision","record":{}}', "object 1 of the file cannot be imported: it is not a record of a decision"),
        ('{"type":"decision"}', "object 1 of the file cannot be imported: it is neither"),
        ('{"type":"blob","digest":"00","text":"x"}', "object 1 of the file cannot be imported: it is neither"),
        (GOOD.replace('"ms":100', '"ms":NaN'), "object 1 of the file cannot be imported: it is not JSON"),
        ('{"a":' + "[" * 100_000, "object 1 of the file cannot be imported: it is not JSON"),
    ],
)
async def test_what_is_no_export_is_refused_with_its_place(log: Database, text: str, told: str) -> None:
    with pytest.raises(ServiceError) as refused:
        await LogQueryService(log).import_logs([text])
    assert refused.value.code is ServiceErrorCode.INVALID_FORMAT
    assert refused.value.message.startswith(told)
    assert (await LogQueryService(log).query_decisions()).total == 0

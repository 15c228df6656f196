"""Export: the records are the stored ones, byte for byte, and the reader refuses invalid files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from graph_agent.audit import export_reader
from graph_agent.audit.export import BATCH, CALL_FIELDS, DECISION_FIELDS
from graph_agent.audit.export_reader import ExportedDecision, ExportedText, read_export
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.record import DecisionOpening
from graph_agent.record.tables import decision_logs
from graph_agent.record.writer import DatabaseAuditWriter
from tests.audit.builders import NOON, TEXTS, make_record, store_records

ANALYTICS = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")


async def export(log: Database, form: str = "jsonl", filters: DecisionFilter | None = None) -> str:
    return "".join([piece async for piece in LogQueryService(log).export_logs(form, filters)])


async def test_a_decision_has_the_columns_of_the_log_before_its_record(log: Database) -> None:
    call = {"tool_name": "add_task", "parameters": {"description": "Käse 🧀"}, "result": {"task": {"id": 1}}}
    store_records(log, make_record(1, tokens=10, calls=(call, {"success": False, "error_code": "NOT_FOUND"})))
    decision = json.loads((await export(log)).splitlines()[-1])
    assert decision["record"]["header"]["context"]["message"] == decision["message"] == "add a task"
    assert (decision["outcome_category"], decision["category"], decision["status"]) == (
        "SUCCESS:TASK_COMPLETED", "SUCCESS", "completed"
    )  # fmt: skip
    assert (decision["created_at"], decision["ended_at"]) == ("2026-03-10T12:01:00Z", "2026-03-10T12:01:00.100000Z")
    assert (decision["total_tokens"], decision["duration_ms"]) == (11, 100)
    sent, failed = decision["tool_calls"]
    assert (sent["parameters"], sent["success"], failed["error_code"]) == ({"description": "Käse 🧀"}, True, "NOT_FOUND")
    assert [(one["sequence"], one["total_tokens"]) for one in decision["model_calls"]] == [(1, 11)]


def test_the_page_lists_exactly_the_fields_of_the_export() -> None:
    listed = [re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) for table in ANALYTICS.split("| field |")[1:]]
    assert listed == [list(DECISION_FIELDS), list(CALL_FIELDS["model_calls"]), list(CALL_FIELDS["tool_calls"])]


async def test_a_record_that_was_edited_is_exported_as_it_is(log: Database) -> None:
    store_records(log, make_record(1))
    log.write_now(lambda connection: connection.execute(update(decision_logs).values(record='{"header":{}}')))
    assert json.loads((await export(log)).splitlines()[-1]) == {"type": "decision", "record": {"header": {}}}


async def test_a_text_is_exported_before_the_first_decision_that_references_it(log: Database) -> None:
    first, second = make_record(1), make_record(2, constitution="another")
    store_records(log, first, second, texts={digest("another"): "another"})
    lines = [json.loads(line) for line in (await export(log)).splitlines()]
    assert [line["type"] for line in lines] == ["blob", "blob", "blob", "decision", "blob", "decision"]
    assert {line["digest"]: line["text"] for line in lines if line["type"] == "blob"} == {**TEXTS, digest("another"): "another"}
    assert [line["record"] for line in lines if line["type"] == "decision"] == [first.to_json(), second.to_json()]
    assert canonical_json(first.to_json()) in await export(log)


@pytest.mark.parametrize("form", ["jsonl", "json"])
async def test_an_export_is_read_as_the_stored_records_and_their_texts(log: Database, form: str) -> None:
    calls: tuple[dict[str, Any], ...] = ({"result": {"tasks": []}}, {"success": False, "error_code": "NOT_FOUND"})
    records = [make_record(number, at=NOON, tokens=number, calls=calls) for number in range(1, BATCH + 20)]
    store_records(log, *records)
    text = await export(log, form)
    if form == "json":
        assert len(json.loads(text)) == len(records) + len(TEXTS)
    read = list(read_export(text[start : start + 700] for start in range(0, len(text), 700)))
    assert {one.digest: one.text for one in read if isinstance(one, ExportedText)} == TEXTS
    assert [one.record for one in read if isinstance(one, ExportedDecision)] == records


async def test_only_closed_decisions_that_match_the_filter_are_exported(log: Database) -> None:
    store_records(log, make_record(1), make_record(2, user="bob"))
    await DatabaseAuditWriter(log).write_opening(DecisionOpening.of(make_record(3, user="bob").header, {}))
    lines = (await export(log, filters=DecisionFilter(user_id="bob"))).splitlines()
    assert [json.loads(line)["record"]["header"]["decision_id"] for line in lines if '"type":"decision"' in line] == [
        make_record(2).header.decision_id
    ]


@pytest.mark.parametrize(("form", "text"), [("jsonl", ""), ("json", "[\n]\n")])
async def test_an_empty_log_exports_to_an_empty_file_of_its_format(log: Database, form: str, text: str) -> None:
    assert await export(log, form) == text
    assert list(read_export([text])) == []


def test_an_unknown_format_is_refused_immediately(log: Database) -> None:
    with pytest.raises(ServiceError) as refused:
        LogQueryService(log).export_logs("xml")
    assert refused.value.code is ServiceErrorCode.INVALID_FORMAT


DECISION_ID = make_record(1).header.decision_id
GOOD = canonical_json({"type": "decision", "record": make_record(1).to_json()})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "object 1 of the file cannot be read: it is not JSON"),
        (f"{GOOD}\n{GOOD[:-9]}", "object 2 of the file cannot be read: it is not JSON"),
        ("7\n", "object 1 of the file cannot be read: it is not an object"),
        ('{"type":"decision","record":{}}', "object 1 of the file cannot be read: its decision id is not a UUID"),
        (GOOD.replace(DECISION_ID, "\\u001b[2Jid"), "object 1 of the file cannot be read: its decision id is not a UUID"),
        (
            GOOD.replace('"user_id":"ann"', '"user_id":"a\\u202enn"'),
            "object 1 of the file cannot be read: its user id contains",
        ),
        (
            GOOD.replace('"conversation_id":"c1"', '"conversation_id":"c\\n1"'),
            "object 1 of the file cannot be read: its conversation id contains hidden characters",
        ),
        ("[[[[", "object 1 of the file cannot be read: it is not JSON"),
        ("[", "object 1 of the file cannot be read: the file is incomplete"),
        ("]", "object 1 of the file cannot be read: the file is incomplete"),
        (",", "object 1 of the file cannot be read: the file is incomplete"),
        (f"[{GOOD}", "object 2 of the file cannot be read: the file is incomplete"),
        (f"[{GOOD} {GOOD}]", "object 2 of the file cannot be read: it is not JSON"),
        (f"{GOOD},{GOOD}", "object 2 of the file cannot be read: it is not JSON"),
        ('{"type":"decision"}', "object 1 of the file cannot be read: it is neither"),
        (GOOD.replace('"ms":100', '"ms":NaN'), "object 1 of the file cannot be read: it is not JSON"),
        (
            GOOD.replace('"ms":100', f'"ms":{10**30}'),
            "object 1 of the file cannot be read: it has a number that is too large",
        ),
        (
            GOOD.replace("2026-", "9999-"),
            "object 1 of the file cannot be read: its times are not in the years 1970 to 2999",
        ),
        (
            GOOD.replace("2026-", "0001-"),
            "object 1 of the file cannot be read: its times are not in the years 1970 to 2999",
        ),
        ('{"a":' + "[" * 100_000, "object 1 of the file cannot be read: it is nested too deeply"),
        ('{"a":' * 300 + "1" + "}" * 300, "object 1 of the file cannot be read: it is nested too deeply"),
    ],
)
def test_an_invalid_file_is_refused_with_the_number_of_the_object(text: str, message: str) -> None:
    with pytest.raises(ServiceError) as refused:
        list(read_export([text]))
    assert refused.value.code is ServiceErrorCode.INVALID_FORMAT
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ('"entries"', '"entry"'),
        ('"model":"', '"model":"\\ud800'),
        ('"extracted_params":{', '"extracted_params":{"x":1e400'),
        ('"finish_reason":', '"reason":'),
    ],
)
def test_what_is_no_record_is_read_without_one(then: str, now: str) -> None:
    assert list(read_export([GOOD.replace(then, now)])) == [ExportedDecision(1, DECISION_ID, None)]


def test_a_file_whose_texts_are_too_large_together_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # A file above the real limit has gigabytes.
    monkeypatch.setattr(export_reader, "MAX_TEXTS", 1_000)
    texts = ["x" * 600, "y" * 600]
    lines = [canonical_json({"type": "blob", "digest": digest(text), "text": text}) for text in texts]
    with pytest.raises(ServiceError, match="object 2 of the file cannot be read: the texts of the file are too large together"):
        list(read_export(lines))


def test_an_object_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # An object above the real limit takes seconds to read.
    monkeypatch.setattr(export_reader, "MAX_OBJECT", 100_000)
    pieces = ['{"type":"blob","text":"'] + ["x" * 50_000] * 20
    with pytest.raises(ServiceError, match="object 1 of the file cannot be read: it is too large"):
        list(read_export(pieces))

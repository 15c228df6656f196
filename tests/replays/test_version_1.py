"""Records of version 1, exported before replies were declared, are imported and replayed.

`records_of_version_1.jsonl` is an export of turns with scripted models.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graph_agent.audit.queries import LogQueryService
from graph_agent.db import Database, migrate
from graph_agent.models.record import DecisionRecord, EntryKind
from graph_agent.replays import Replayer, ReplayReport

EXPORT = (Path(__file__).parent / "records_of_version_1.jsonl").read_text(encoding="utf-8")


@pytest.fixture
def log() -> Any:
    database = Database.open("sqlite://")
    migrate(database, "graph_agent.record")
    yield database
    database.close_now()


async def _records(log: Database) -> tuple[list[DecisionRecord], Mapping[str, str]]:
    assert (await LogQueryService(log).import_logs([EXPORT])).imported == 16
    rows = await log.read(
        lambda connection: connection.exec_driver_sql("SELECT record FROM decision_logs ORDER BY created_at").all()
    )
    blobs = await log.read(lambda connection: connection.exec_driver_sql("SELECT digest, text FROM record_blobs").all())
    return [DecisionRecord.model_validate_json(row[0]) for row in rows], {blob[0]: blob[1] for blob in blobs}


async def _replayed(log: Database) -> dict[str, list[ReplayReport]]:
    """Return the reports by the reply of their decision."""
    records, texts = await _records(log)
    replayer = Replayer()
    reports: dict[str, list[ReplayReport]] = {}
    for record in records:
        reports.setdefault(record.decision.reply, []).append(await replayer.replay(record, texts))
    return reports


async def test_an_export_of_version_1_is_exported_again_byte_for_byte(log: Database) -> None:
    await LogQueryService(log).import_logs([EXPORT])
    assert "".join([piece async for piece in LogQueryService(log).export_logs("jsonl")]) == EXPORT


async def test_turns_whose_replies_were_declared_or_answers_replay_identically(log: Database) -> None:
    reports = await _replayed(log)
    assert {reply for reply, found in reports.items() if not all(report.identical for report in found)} == {
        "Which task do you mean?",
        "All right, nothing was changed.",
        "I'm sorry, I can't help with that.",
        "I'm receiving too many requests. Please wait a moment.",
    }
    assert sum(report.identical for found in reports.values() for report in found) == 12


async def test_the_intent_of_a_turn_without_an_answer_of_the_model_is_a_difference(log: Database) -> None:
    (report,) = (await _replayed(log))["I'm receiving too many requests. Please wait a moment."]
    _, difference = report.differences
    assert (difference.what, difference.replayed) == ("decision.intent", "nothing")


@pytest.mark.parametrize(
    ("reply", "recorded", "replayed"),
    [
        ("Which task do you mean?", "AMBIGUITY:MISSING_CONTEXT", "AMBIGUITY:UNCLEAR_INTENT"),
        ("All right, nothing was changed.", "SUCCESS:CLARIFICATION_ANSWERED", "SUCCESS:RESPONSE_GIVEN"),
        ("I'm sorry, I can't help with that.", "REFUSAL:OUT_OF_SCOPE", "SUCCESS:RESPONSE_GIVEN"),
    ],
)
async def test_a_kind_that_was_read_from_the_wording_is_a_difference_and_explained(
    log: Database, reply: str, recorded: str, replayed: str
) -> None:
    (report,) = (await _replayed(log))[reply]
    explanation, difference = report.differences
    assert explanation.what == "the record's version"
    assert explanation.recorded == "version 1, which read the kind of a reply in plain text from its wording"
    assert (difference.what, difference.recorded, difference.replayed) == ("decision.outcome_category", recorded, replayed)
    assert report.departure is None


async def test_a_changed_record_of_version_1_is_noticed(log: Database) -> None:
    records, texts = await _records(log)
    record = next(record for record in records if record.decision.reply == "I've added 'call mom'.")
    number, entry = next((n, entry) for n, entry in enumerate(record.entries) if entry.kind is EntryKind.MODEL)
    entries = [*record.entries[:number], entry.replace(request="0" * 64), *record.entries[number + 1 :]]
    report = await Replayer().replay(record.replace(entries=entries), texts)
    assert f"entries[{number}].request" in [difference.what for difference in report.differences]


async def test_a_version_that_does_not_exist_is_one_difference(log: Database) -> None:
    records, texts = await _records(log)
    record = records[0].replace(header=records[0].header.replace(version=5))
    (difference,) = (await Replayer().replay(record, texts)).differences
    assert (difference.what, difference.recorded, difference.replayed) == ("header.version", "5", "4")

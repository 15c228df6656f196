"""The chain of records: what was changed in the log is found and named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update

from graph_agent.record.chain import derive_chain_key
from graph_agent.record.tamper.pruned import record_cut
from graph_agent.record.chain_tables import RecordChain, RecordLink
from graph_agent.record.tamper.heads import SignedHeads, sign_heads
from graph_agent.record.tables import DecisionLog, LLMCallLog, RecordBlob, ToolInvocationLog
from graph_agent.record.tamper.verify import FindingKind, VerifyReport, verify_log
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.db import Database, migrate
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.models.record import DecisionRecord
from tests.turns import asks, calls, engine_of, says

KEY = derive_chain_key(b"a secret of sixteen bytes at least")
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class Log:
    """Turns in one log database, all of them written by one writer; several logs share the ids."""

    def __init__(self, writer: DatabaseAuditWriter, ids: SequentialIds) -> None:
        self._writer = writer
        self._ids = ids
        self._clock = ManualClock()

    @classmethod
    def on(cls, database: Database) -> Log:
        return cls(DatabaseAuditWriter(database, chain_key=KEY), SequentialIds())

    async def turn(self, message: str, *script: LLMResponse) -> DecisionRecord:
        self._clock.advance(seconds=1)
        engine = engine_of(*script, audit=self._writer, ids=self._ids, clock=self._clock)
        return (await engine.run(asks(message))).record

    async def fill(self, turns: int) -> list[str]:
        """So many turns, every third of them with a tool; their decisions' ids."""
        usage = TokenUsage(prompt_tokens=100, completion_tokens=7, total_tokens=107)
        names = []
        for number in range(turns):
            added = () if number % 3 else (calls(("add_task", {"description": f"task {number}"})),)
            record = await self.turn(f"hello {number}", *added, says(f"Hello {number}.").replace(usage=usage))
            names.append(record.header.decision_id)
        return names


@pytest.fixture
def filled(log: Database) -> Log:
    return Log.on(log)


@pytest.fixture
def one_chain(sqlite_url: str) -> Iterator[Database]:
    """A log database with one writing thread, and so with one chain a writer."""
    database = Database.open(sqlite_url)
    migrate(database, "graph_agent.record")
    yield database
    database.close_now()


async def verify(log: Database, **more: Any) -> VerifyReport:
    return await verify_log(log, **{"key": KEY, **more})


async def run(log: Database, *statements: Any) -> None:
    def work(connection: Any) -> None:
        for statement in statements:
            connection.execute(statement)

    await log.write(work)


def told(report: VerifyReport) -> list[tuple[FindingKind, str | None]]:
    return [(finding.kind, finding.decision_id) for finding in report.findings]


async def test_a_log_that_nobody_touched_is_intact(log: Database, filled: Log) -> None:
    await filled.fill(7)
    seen: list[tuple[int, int]] = []
    report = await verify(log, on_progress=lambda done, total: seen.append((done, total)))
    chains = report.chains if log.dialect == "postgresql" else 1
    assert report == VerifyReport(records=7, chains=chains, pruned=0, open=0, keyed=True, count=0, findings=[])
    assert report.intact
    assert seen[-1] == (7, 7)


async def test_every_single_changed_character_of_a_record_is_found_and_named(one_chain: Database) -> None:
    names = await Log.on(one_chain).fill(2)
    row = DecisionLog.decision_id == names[0]
    stored = await one_chain.read(lambda connection: connection.execute(select(DecisionLog.record).where(row)).scalar_one())
    step = max(1, len(stored) // 30)
    for place in range(0, len(stored), step):
        changed = stored[:place] + ("x" if stored[place] != "x" else "y") + stored[place + 1 :]
        await run(one_chain, update(DecisionLog).where(row).values(record=changed))
        assert (FindingKind.EDITED, names[0]) in told(await verify(one_chain)), place
    await run(one_chain, update(DecisionLog).where(row).values(record=stored))
    assert (await verify(one_chain)).intact


async def test_an_edit_is_pinned_to_the_one_record_it_was_made_in(log: Database, filled: Log) -> None:
    names = await filled.fill(5)
    edited = update(DecisionLog).where(DecisionLog.decision_id == names[2])
    await run(log, edited.values(record=func_replace(DecisionLog.record, "hello 2", "hello 9")))
    report = await verify(log)
    assert {finding.decision_id for finding in report.findings} == {names[2]}
    told_of = [finding.text for finding in report.findings]
    assert f"the record of decision {names[2]} is not the one that was sealed" in told_of


async def test_a_removed_record_is_named_by_its_link(log: Database, filled: Log) -> None:
    names = await filled.fill(4)
    await run(log, *rows_of(names[1]))
    assert told(await verify(log)) == [(FindingKind.REMOVED, names[1])]


async def test_a_record_removed_with_its_link_leaves_a_gap_before_the_next_one(one_chain: Database) -> None:
    names = await Log.on(one_chain).fill(4)
    await run(one_chain, *rows_of(names[1]), delete(RecordLink).where(RecordLink.decision_id == names[1]))
    report = await verify(one_chain)
    assert [finding.kind for finding in report.findings] == [FindingKind.REMOVED]
    assert names[2] in report.findings[0].text


async def test_reordered_records_are_told_from_edited_ones(one_chain: Database) -> None:
    names = await Log.on(one_chain).fill(4)
    one, other = (RecordLink.decision_id == names[place] for place in (1, 2))
    await run(
        one_chain,
        update(RecordLink).where(one).values(n=99),
        update(RecordLink).where(other).values(n=2),
        update(RecordLink).where(one).values(n=3),
    )
    assert (FindingKind.MOVED, names[2]) in told(await verify(one_chain))
    assert (FindingKind.MOVED, names[1]) in told(await verify(one_chain))


async def test_a_missing_end_is_found_up_to_the_last_signed_head(one_chain: Database) -> None:
    names = await Log.on(one_chain).fill(65)
    for name in names[60:]:
        await run(one_chain, *rows_of(name), delete(RecordLink).where(RecordLink.decision_id == name))
    report = await verify(one_chain)
    assert [finding.kind for finding in report.findings] == [FindingKind.REMOVED]
    assert "signed up to 65 and stops at 60" in report.findings[0].text


async def test_only_heads_kept_outside_show_a_missing_end_that_was_not_signed_yet(one_chain: Database) -> None:
    names = await Log.on(one_chain).fill(6)
    outside = SignedHeads.from_text((await sign_heads(one_chain, KEY, NOON)).to_text())
    assert (await verify(one_chain, heads=outside)).intact
    await run(one_chain, *rows_of(names[5]), delete(RecordLink).where(RecordLink.decision_id == names[5]))
    assert (await verify(one_chain)).intact
    report = await verify(one_chain, heads=outside)
    assert [finding.kind for finding in report.findings] == [FindingKind.REMOVED]
    assert "it had 6 records on 2026-01-05 12:00" in report.findings[0].text


async def test_only_heads_kept_outside_show_a_chain_that_is_gone_altogether(one_chain: Database) -> None:
    names = await Log.on(one_chain).fill(3)
    outside = await sign_heads(one_chain, KEY, NOON)
    for name in names:
        await run(one_chain, *rows_of(name))
    await run(one_chain, delete(RecordLink), delete(RecordChain))
    assert (await verify(one_chain)).intact
    assert [finding.kind for finding in (await verify(one_chain, heads=outside)).findings] == [FindingKind.REMOVED]


async def test_heads_that_were_changed_are_not_believed(log: Database, filled: Log) -> None:
    await filled.fill(3)
    outside = await sign_heads(log, KEY, NOON)
    shortened = outside.replace(heads=[head.replace(n=2) for head in outside.heads])
    report = await verify(log, heads=shortened)
    assert [finding.kind for finding in report.findings] == [FindingKind.SIGNATURE]


async def test_a_chain_written_anew_without_the_key_is_found(log: Database, filled: Log) -> None:
    await filled.fill(2)
    ids = filled._ids
    await Log(DatabaseAuditWriter(log, chain_key=b"another key, of somebody else..."), ids).turn("hello", says("Hello."))
    await Log(DatabaseAuditWriter(log), ids).turn("hello again", says("Hello again."))
    report = await verify(log)
    assert [finding.kind for finding in report.findings] == [FindingKind.SIGNATURE, FindingKind.SIGNATURE]
    assert sorted(finding.text.partition(" was made ")[2] for finding in report.findings) == [
        "with another key: it cannot be verified",
        "without a key: it cannot be verified",
    ]


async def test_a_row_put_into_the_log_by_hand_is_found(log: Database, filled: Log) -> None:
    names = await filled.fill(1)
    copied = select(DecisionLog.__table__).where(DecisionLog.decision_id == names[0])
    row = await log.read(lambda connection: dict(connection.execute(copied).mappings().one()))
    await run(log, DecisionLog.__table__.insert().values({**row, "decision_id": "forged"}))
    assert told(await verify(log)) == [(FindingKind.ADDED, "forged")]


COLUMNS: list[tuple[Any, str, Any]] = [
    *(
        (DecisionLog, name, value)
        for name, value in {
            "conversation_id": "other",
            "user_id": "eve",
            "message": "something else",
            "intent_type": "GENERAL_CHAT",
            "confidence": 0.5,
            "extracted_params": {"description": "other"},
            "decision_type": "RESPOND_ONLY",
            "outcome_category": "ERROR:TOOL_INVOCATION",
            "category": "ERROR",
            "response_text": "Nothing was done.",
            "created_at": NOON,
            "ended_at": NOON,
            "duration_ms": 99999,
            "status": "interrupted",
            "model": "another",
            "constitution": "0" * 64,
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "total_tokens": 1,
            "iterations": 3,
            "states": ["BUILD_REQUEST"],
            "header": "{}",
        }.items()
    ),
    *(
        (ToolInvocationLog, name, value)
        for name, value in {
            "tool_name": "list_tasks",
            "parameters": {"description": "other"},
            "disposition": "refused",
            "result": {"task": None},
            "success": False,
            "error_code": "NOT_FOUND",
            "error_message": "no",
            "duration_ms": 99999,
            "invoked_at": NOON,
            "sequence": 7,
        }.items()
    ),
    *(
        (LLMCallLog, name, value)
        for name, value in {
            "response": {"content": "other"},
            "finish_reason": "error",
            "error": "BLOCKED",
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "total_tokens": 1,
            "duration_ms": 99999,
            "request_digest": "0" * 64,
            "sequence": 7,
        }.items()
    ),
]


async def test_every_column_that_disagrees_with_its_record_is_found_and_named(log: Database, filled: Log) -> None:
    (name,) = await filled.fill(1)
    for model, column, value in COLUMNS:
        first = (model.decision_id == name) & (model.sequence == 1 if model is not DecisionLog else True)
        stored = await log.read(read_one(select(getattr(model, column)).where(first)))
        await run(log, update(model).where(first).values({column: value}))
        report = await verify(log)
        assert (FindingKind.PROJECTION, name) in told(report), column
        assert any(model.__tablename__ in finding.text for finding in report.findings), column
        changed = (model.decision_id == name) & (getattr(model, column) == value if column == "sequence" else first)
        await run(log, update(model).where(changed).values({column: stored}))
    assert (await verify(log)).intact


async def test_a_column_that_cannot_even_be_read_is_found_like_any_other(log: Database, filled: Log) -> None:
    (name,) = await filled.fill(1)
    await run(
        log,
        text("UPDATE tool_invocation_logs SET parameters = '{'"),
        text("UPDATE llm_call_logs SET response = 'nothing'"),
        text("UPDATE decision_logs SET states = ''"),
    )
    report = await verify(log)
    assert {finding.kind for finding in report.findings} == {FindingKind.PROJECTION}
    assert report.count == 4
    assert {finding.decision_id for finding in report.findings} == {name}


async def test_a_changed_or_missing_shared_text_is_found(log: Database, filled: Log) -> None:
    await filled.fill(1)
    header = json.loads(await log.read(read_one(select(DecisionLog.header))))
    constitution = RecordBlob.digest == header["constitution"]
    await run(log, update(RecordBlob).where(constitution).values(text="# Constitution\n"))
    assert [finding.kind for finding in (await verify(log)).findings] == [FindingKind.TEXT]
    await run(log, delete(RecordBlob).where(constitution))
    report = await verify(log)
    assert [finding.kind for finding in report.findings] == [FindingKind.TEXT]
    assert header["constitution"] in report.findings[0].text


async def test_pruning_leaves_a_chain_that_verifies_and_heads_that_still_hold(log: Database, filled: Log) -> None:
    names = await filled.fill(9)
    outside = await sign_heads(log, KEY, NOON)

    def prune(*places: int) -> Callable[[Any], None]:
        def work(connection: Any) -> None:
            gone = [names[place] for place in places]
            record_cut(connection, gone, key=KEY)
            for name in gone:
                for statement in rows_of(name):
                    connection.execute(statement)

        return work

    for pruned, places in ((2, (0, 1)), (4, (4, 7)), (6, (2, 3)), (9, (5, 6, 8))):
        await log.write(prune(*places))
        report = await verify(log, heads=outside)
        assert report.findings == []
        assert (report.records, report.pruned) == (9 - pruned, pruned)
    left = await log.read(lambda connection: connection.execute(select(RecordLink.n)).all())
    assert left == []
    await filled.turn("hello", says("Hello."))
    report = await verify(log, heads=outside)
    assert (report.findings, report.records, report.pruned) == ([], 1, 9)


async def test_a_removal_dressed_up_as_pruning_is_found(one_chain: Database) -> None:
    names = await Log.on(one_chain).fill(4)
    await run(
        one_chain,
        *rows_of(names[0]),
        delete(RecordLink).where(RecordLink.decision_id == names[0]),
        update(RecordChain).values(cut_n=1, cut_mac="0" * 64, cut_signature="0" * 64),
        *rows_of(names[2]),
        update(RecordLink).where(RecordLink.decision_id == names[2]).values(cut="0" * 64),
    )
    report = await verify(one_chain)
    assert (FindingKind.SIGNATURE, names[2]) in told(report)
    assert (FindingKind.SIGNATURE, None) in told(report)


async def test_writers_that_close_at_once_end_in_chains_without_a_gap(log: Database) -> None:
    ids = SequentialIds()
    logs = [Log(DatabaseAuditWriter(log, chain_key=KEY), ids) for _ in range(3)]
    names = await asyncio.gather(*(one.turn(f"hello {place}", says("Hello.")) for one in logs for place in range(20)))
    assert len({record.header.decision_id for record in names}) == 60
    report = await verify(log)
    assert (report.findings, report.records) == ([], 60)
    if log.dialect == "sqlite":
        assert report.chains == 3


async def test_an_open_turn_is_counted_and_not_complained_of(log: Database, filled: Log) -> None:
    await filled.fill(2)
    await DatabaseAuditWriter(log).write_decision_log(decision_id="open", conversation_id="c", user_id="ann", message="hello")
    report = await verify(log)
    assert (report.intact, report.open, report.records) == (True, 1, 2)


def rows_of(name: str) -> list[Any]:
    """What deletes a decision with all its rows."""
    return [
        delete(ToolInvocationLog).where(ToolInvocationLog.decision_id == name),
        delete(LLMCallLog).where(LLMCallLog.decision_id == name),
        delete(DecisionLog).where(DecisionLog.decision_id == name),
    ]


def read_one(wanted: Any) -> Callable[[Any], Any]:
    return lambda connection: connection.execute(wanted).scalars().first()


def func_replace(column: Any, old: str, new: str) -> Any:
    from sqlalchemy import func

    return func.replace(column, old, new)

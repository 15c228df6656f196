"""Tamper evidence: verification finds every change of the log and names the decision."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, func, select, text, update

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.db import Database, migrate
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.models.record import DecisionRecord
from graph_agent.record.chain import derive_chain_key
from graph_agent.record.chain_tables import record_chains, record_links
from graph_agent.record.tables import decision_logs, llm_call_logs, record_blobs, tool_invocation_logs
from graph_agent.record.tamper.heads import SignedHeads, sign_heads
from graph_agent.record.tamper.pruned import mark_pruned
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import VerifyReport, ViolationKind
from graph_agent.record.writer import DatabaseAuditWriter
from tests.scripted_turns import asks, calls, engine_of, says

KEY = derive_chain_key(b"a secret of sixteen bytes at least")
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class LogFiller:
    """Runs turns that one writer records in a log database. Several fillers may share the source of ids."""

    def __init__(self, writer: DatabaseAuditWriter, ids: SequentialIds) -> None:
        self._writer = writer
        self.ids = ids
        self._clock = ManualClock()

    @classmethod
    def on(cls, database: Database) -> LogFiller:
        return cls(DatabaseAuditWriter(database, chain_key=KEY), SequentialIds())

    async def turn(self, message: str, *script: LLMResponse) -> DecisionRecord:
        self._clock.advance(seconds=1)
        engine = engine_of(*script, audit=self._writer, ids=self.ids, clock=self._clock)
        return (await engine.run(asks(message))).record

    async def fill(self, turns: int) -> list[str]:
        """Run this many turns, every third of them with a tool call, and return the ids of their decisions."""
        usage = TokenUsage(prompt_tokens=100, completion_tokens=7, total_tokens=107)
        names = []
        for number in range(turns):
            added = () if number % 3 else (calls(("add_task", {"description": f"task {number}"})),)
            record = await self.turn(f"hello {number}", *added, says(f"Hello {number}.").replace(usage=usage))
            names.append(record.header.decision_id)
        return names


@pytest.fixture
def filler(log: Database) -> LogFiller:
    return LogFiller.on(log)


@pytest.fixture
def one_chain(sqlite_url: str) -> Iterator[Database]:
    """A SQLite log database: it has one writing thread, and therefore one chain per writer."""
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


def found(report: VerifyReport) -> list[tuple[ViolationKind, str | None]]:
    return [(violation.kind, violation.decision_id) for violation in report.violations]


async def test_an_unchanged_log_is_intact(log: Database, filler: LogFiller) -> None:
    await filler.fill(7)
    seen: list[tuple[int, int]] = []
    report = await verify(log, on_progress=lambda done, total: seen.append((done, total)))
    chains = report.chains if log.dialect == "postgresql" else 1
    assert report == VerifyReport(records=7, chains=chains, pruned=0, open=0, keyed=True, count=0, violations=[])
    assert report.intact
    assert seen[-1] == (7, 7)


async def test_every_single_changed_character_of_a_record_is_found_and_named(one_chain: Database) -> None:
    names = await LogFiller.on(one_chain).fill(2)
    row = decision_logs.c.decision_id == names[0]
    stored = await one_chain.read(lambda connection: connection.execute(select(decision_logs.c.record).where(row)).scalar_one())
    step = max(1, len(stored) // 30)
    for position in range(0, len(stored), step):
        changed = stored[:position] + ("x" if stored[position] != "x" else "y") + stored[position + 1 :]
        await run(one_chain, update(decision_logs).where(row).values(record=changed))
        assert (ViolationKind.EDITED, names[0]) in found(await verify(one_chain)), position
    await run(one_chain, update(decision_logs).where(row).values(record=stored))
    assert (await verify(one_chain)).intact


async def test_an_edit_is_reported_for_the_edited_record_only(log: Database, filler: LogFiller) -> None:
    names = await filler.fill(5)
    edited = update(decision_logs).where(decision_logs.c.decision_id == names[2])
    await run(log, edited.values(record=replaced(decision_logs.c.record, "hello 2", "hello 9")))
    report = await verify(log)
    assert {violation.decision_id for violation in report.violations} == {names[2]}
    texts = [violation.text for violation in report.violations]
    assert f"the record of decision {names[2]} is not the one that was sealed" in texts


async def test_a_removed_record_is_named_by_the_link_that_is_left(log: Database, filler: LogFiller) -> None:
    names = await filler.fill(4)
    await run(log, *deletions(names[1]))
    assert found(await verify(log)) == [(ViolationKind.REMOVED, names[1])]


async def test_a_record_removed_with_its_link_is_reported_as_a_gap_before_the_next_one(one_chain: Database) -> None:
    names = await LogFiller.on(one_chain).fill(4)
    await run(one_chain, *deletions(names[1]), delete(record_links).where(record_links.c.decision_id == names[1]))
    report = await verify(one_chain)
    assert [violation.kind for violation in report.violations] == [ViolationKind.REMOVED]
    assert names[2] in report.violations[0].text


async def test_reordered_records_are_reported_as_moved_not_as_edited(one_chain: Database) -> None:
    names = await LogFiller.on(one_chain).fill(4)
    one, other = (record_links.c.decision_id == names[position] for position in (1, 2))
    await run(
        one_chain,
        update(record_links).where(one).values(n=99),
        update(record_links).where(other).values(n=2),
        update(record_links).where(one).values(n=3),
    )
    assert (ViolationKind.MOVED, names[2]) in found(await verify(one_chain))
    assert (ViolationKind.MOVED, names[1]) in found(await verify(one_chain))


async def test_a_missing_end_is_found_if_the_head_was_signed_after_it(one_chain: Database) -> None:
    names = await LogFiller.on(one_chain).fill(65)
    for name in names[60:]:
        await run(one_chain, *deletions(name), delete(record_links).where(record_links.c.decision_id == name))
    report = await verify(one_chain)
    assert [violation.kind for violation in report.violations] == [ViolationKind.REMOVED]
    assert "signed up to 65 and stops at 60" in report.violations[0].text


async def test_a_missing_end_that_was_not_signed_yet_is_found_by_exported_heads_only(one_chain: Database) -> None:
    names = await LogFiller.on(one_chain).fill(6)
    exported = SignedHeads.from_text((await sign_heads(one_chain, KEY, NOON)).to_text())
    assert (await verify(one_chain, heads=exported)).intact
    await run(one_chain, *deletions(names[5]), delete(record_links).where(record_links.c.decision_id == names[5]))
    assert (await verify(one_chain)).intact
    report = await verify(one_chain, heads=exported)
    assert [violation.kind for violation in report.violations] == [ViolationKind.REMOVED]
    assert "it had 6 records on 2026-01-05 12:00" in report.violations[0].text


async def test_a_chain_that_was_deleted_entirely_is_found_by_exported_heads_only(one_chain: Database) -> None:
    names = await LogFiller.on(one_chain).fill(3)
    exported = await sign_heads(one_chain, KEY, NOON)
    for name in names:
        await run(one_chain, *deletions(name))
    await run(one_chain, delete(record_links), delete(record_chains))
    assert (await verify(one_chain)).intact
    assert [violation.kind for violation in (await verify(one_chain, heads=exported)).violations] == [ViolationKind.REMOVED]


async def test_exported_heads_that_were_edited_are_rejected(log: Database, filler: LogFiller) -> None:
    await filler.fill(3)
    exported = await sign_heads(log, KEY, NOON)
    shortened = exported.replace(heads=[head.replace(n=2) for head in exported.heads])
    report = await verify(log, heads=shortened)
    assert [violation.kind for violation in report.violations] == [ViolationKind.SIGNATURE]


async def test_a_chain_that_was_rewritten_without_the_key_is_found(log: Database, filler: LogFiller) -> None:
    await filler.fill(2)
    ids = filler.ids
    await LogFiller(DatabaseAuditWriter(log, chain_key=b"a key of another installation...."), ids).turn("hello", says("Hello."))
    await LogFiller(DatabaseAuditWriter(log), ids).turn("hello again", says("Hello again."))
    report = await verify(log)
    assert [violation.kind for violation in report.violations] == [ViolationKind.SIGNATURE, ViolationKind.SIGNATURE]
    assert sorted(violation.text.partition(" was sealed ")[2] for violation in report.violations) == [
        "with another key: it cannot be verified",
        "without a key: it cannot be verified",
    ]


async def test_a_row_inserted_by_hand_is_found(log: Database, filler: LogFiller) -> None:
    names = await filler.fill(1)
    copied = select(decision_logs).where(decision_logs.c.decision_id == names[0])
    row = await log.read(lambda connection: dict(connection.execute(copied).mappings().one()))
    await run(log, decision_logs.insert().values({**row, "decision_id": "forged"}))
    assert found(await verify(log)) == [(ViolationKind.ADDED, "forged")]


COLUMNS: list[tuple[Any, str, Any]] = [
    *(
        (decision_logs, name, value)
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
            "response_model": "another",
            "cached_tokens": 1,
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
        (tool_invocation_logs, name, value)
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
        (llm_call_logs, name, value)
        for name, value in {
            "response": {"content": "other"},
            "finish_reason": "error",
            "error": "BLOCKED",
            "response_model": "another",
            "cached_tokens": 1,
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "total_tokens": 1,
            "duration_ms": 99999,
            "request_digest": "0" * 64,
            "sequence": 7,
        }.items()
    ),
]


async def test_every_column_that_differs_from_its_record_is_found_and_named(log: Database, filler: LogFiller) -> None:
    (name,) = await filler.fill(1)
    for table, column, value in COLUMNS:
        first = (table.c.decision_id == name) & (table.c.sequence == 1 if table is not decision_logs else True)
        stored = await log.read(read_one(select(table.c[column]).where(first)))
        await run(log, update(table).where(first).values({column: value}))
        report = await verify(log)
        assert (ViolationKind.PROJECTION, name) in found(report), column
        assert any(table.name in violation.text for violation in report.violations), column
        changed = (table.c.decision_id == name) & (table.c[column] == value if column == "sequence" else first)
        await run(log, update(table).where(changed).values({column: stored}))
    assert (await verify(log)).intact


async def test_a_column_that_cannot_be_decoded_is_found(log: Database, filler: LogFiller) -> None:
    (name,) = await filler.fill(1)
    await run(
        log,
        text("UPDATE tool_invocation_logs SET parameters = '{'"),
        text("UPDATE llm_call_logs SET response = 'nothing'"),
        text("UPDATE decision_logs SET states = ''"),
    )
    report = await verify(log)
    assert {violation.kind for violation in report.violations} == {ViolationKind.PROJECTION}
    assert report.count == 4
    assert {violation.decision_id for violation in report.violations} == {name}


async def test_a_changed_or_missing_shared_text_is_found(log: Database, filler: LogFiller) -> None:
    await filler.fill(1)
    header = json.loads(await log.read(read_one(select(decision_logs.c.header))))
    constitution = record_blobs.c.digest == header["constitution"]
    await run(log, update(record_blobs).where(constitution).values(text="# Constitution\n"))
    assert [violation.kind for violation in (await verify(log)).violations] == [ViolationKind.TEXT]
    await run(log, delete(record_blobs).where(constitution))
    report = await verify(log)
    assert [violation.kind for violation in report.violations] == [ViolationKind.TEXT]
    assert header["constitution"] in report.violations[0].text


async def test_a_pruned_log_verifies_also_against_heads_exported_before(log: Database, filler: LogFiller) -> None:
    names = await filler.fill(9)
    exported = await sign_heads(log, KEY, NOON)

    def prune(*positions: int) -> Callable[[Any], None]:
        def work(connection: Any) -> None:
            gone = [names[position] for position in positions]
            mark_pruned(connection, gone, key=KEY)
            for name in gone:
                for statement in deletions(name):
                    connection.execute(statement)

        return work

    for pruned, positions in ((2, (0, 1)), (4, (4, 7)), (6, (2, 3)), (9, (5, 6, 8))):
        await log.write(prune(*positions))
        report = await verify(log, heads=exported)
        assert report.violations == []
        assert (report.records, report.pruned) == (9 - pruned, pruned)
    left = await log.read(lambda connection: connection.execute(select(record_links.c.n)).all())
    assert left == []
    await filler.turn("hello", says("Hello."))
    report = await verify(log, heads=exported)
    assert (report.violations, report.records, report.pruned) == ([], 1, 9)


async def test_a_removal_disguised_as_pruning_is_found(one_chain: Database) -> None:
    names = await LogFiller.on(one_chain).fill(4)
    await run(
        one_chain,
        *deletions(names[0]),
        delete(record_links).where(record_links.c.decision_id == names[0]),
        update(record_chains).values(cut_n=1, cut_mac="0" * 64, cut_signature="0" * 64),
        *deletions(names[2]),
        update(record_links).where(record_links.c.decision_id == names[2]).values(cut="0" * 64),
    )
    report = await verify(one_chain)
    assert (ViolationKind.SIGNATURE, names[2]) in found(report)
    assert (ViolationKind.SIGNATURE, None) in found(report)


async def test_concurrent_writers_leave_chains_without_gaps(log: Database) -> None:
    ids = SequentialIds()
    logs = [LogFiller(DatabaseAuditWriter(log, chain_key=KEY), ids) for _ in range(3)]
    names = await asyncio.gather(*(one.turn(f"hello {position}", says("Hello.")) for one in logs for position in range(20)))
    assert len({record.header.decision_id for record in names}) == 60
    report = await verify(log)
    assert (report.violations, report.records) == ([], 60)
    if log.dialect == "sqlite":
        assert report.chains == 3


async def test_an_open_turn_is_counted_but_is_no_finding(log: Database, filler: LogFiller) -> None:
    await filler.fill(2)
    writer = DatabaseAuditWriter(log, chain_key=KEY)
    await writer.write_decision_log(decision_id="open", conversation_id="c", user_id="ann", message="hello")
    report = await verify(log)
    assert (report.intact, report.open, report.records) == (True, 1, 2)


def deletions(name: str) -> list[Any]:
    """Return the statements that delete a decision with all its rows."""
    return [
        delete(tool_invocation_logs).where(tool_invocation_logs.c.decision_id == name),
        delete(llm_call_logs).where(llm_call_logs.c.decision_id == name),
        delete(decision_logs).where(decision_logs.c.decision_id == name),
    ]


def read_one(wanted: Any) -> Callable[[Any], Any]:
    return lambda connection: connection.execute(wanted).scalars().first()


def replaced(column: Any, old: str, new: str) -> Any:
    return func.replace(column, old, new)


async def test_after_a_shutdown_records_that_are_removed_from_the_end_are_found(log: Database) -> None:
    writer = DatabaseAuditWriter(log, chain_key=KEY)
    names = await LogFiller(writer, SequentialIds()).fill(5)
    await writer.sign_heads()
    await writer.sign_heads()
    assert (await verify(log)).intact
    for statement in [*deletions(names[-1]), delete(record_links).where(record_links.c.decision_id == names[-1])]:
        await run(log, statement)
    assert ViolationKind.REMOVED in {kind for kind, _ in found(await verify(log))}

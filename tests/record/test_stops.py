"""What an operator has stopped is neither intended nor sent, by any process, until it is resumed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select, update

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import RecordUnavailableError, ServiceError, ServiceErrorCode, StoppedError, ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.record import CallOperation, DecisionOpening, EntryKind, InterruptReason, OperationState, RecordStatus
from graph_agent.models.stop import Sending, Stop, StopScope
from graph_agent.models.tools import ToolResult
from graph_agent.record.permit import Permit
from graph_agent.record.stops import (
    calls_under_way,
    end_stop,
    ended_without_mac,
    find_open_stops,
    forget_user,
    list_stops,
    place_stop,
)
from graph_agent.record.tables import call_operations, rule_stops
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.record.trees import KEY, tree_of, verified
from tests.scripted_turns import TableServer, asks, calls, done, engine_of, failed, grouped

EVERYTHING = Stop(number=0, scope=StopScope.EVERYTHING, reason="wrong tasks", by="ann")
MILK, BREAD = [("add_task", {"description": description}) for description in ("milk", "bread")]
LIST: tuple[str, dict[str, Any]] = ("list_tasks", {})
SEALER = Sealer(b"a key for tests only")


def stop_of(scope: StopScope, name: str, **fields: Any) -> Stop:
    return EVERYTHING.replace(scope=scope, name=name, **fields)


def by_hand(log: Database) -> None:
    """Stop everything as psql does."""
    text = "INSERT INTO rule_stops (scope, reason) VALUES ('everything', 'by hand')"
    log.write_now(lambda connection: connection.exec_driver_sql(text).close())


class StoppedDuring(TableServer):
    """Places a stop while it runs the first call that is sent to it."""

    def __init__(self, log: Database, stop: Stop | None = EVERYTHING, **fields: Any) -> None:
        super().__init__(**fields)
        self.log, self.stop = log, stop

    async def execute(self, call: Any, *, deadline: float | None = None) -> ToolResult:
        if not self.sent:
            if self.stop is None:
                await asyncio.to_thread(by_hand, self.log)
            else:
                await place_stop(self.log, self.stop)
        return await super().execute(call, deadline=deadline)

    @property
    def sent_tools(self) -> list[str]:
        return [name for name, *_ in self.sent]


@pytest.mark.parametrize("stop", [EVERYTHING, None, stop_of(StopScope.TOOL, "add_task"), stop_of(StopScope.USER, "ann")])
async def test_the_second_change_of_a_batch_is_not_sent_after_a_stop(log: Database, stop: Stop | None) -> None:
    server = StoppedDuring(log, stop)
    engine = engine_of(calls(MILK, BREAD), says("Never said."), server=server, audit=DatabaseAuditWriter(log))

    record = (await engine.run(asks())).record

    assert [arguments["description"] for _, arguments, *_ in server.sent] == ["milk"]
    reasons = [entry.result["reason"] for entry in record.entries if entry.kind is EntryKind.INTERRUPT]
    assert (record.status, reasons) == (RecordStatus.INTERRUPTED, [InterruptReason.STOPPED])
    assert record.decision.reply == ("The operator has stopped this, so I did nothing further. Already done: Add task 'milk'.")
    states = select(call_operations.c.state).order_by(call_operations.c.sequence)
    assert log.read_now(lambda connection: connection.execute(states).scalars().all()) == [OperationState.DONE]
    assert [step.turn async for step in engine.steps_of(record, await engine.snapshot_of(record.header))][-1].decision == (
        record.decision
    )


async def test_a_stop_of_changes_lets_reads_go_on(log: Database) -> None:
    server = StoppedDuring(log, EVERYTHING.replace(changes_only=True))
    engine = engine_of(calls(LIST), calls(LIST, MILK), says("Never said."), server=server, audit=DatabaseAuditWriter(log))
    record = (await engine.run(asks())).record
    assert server.sent_tools == ["list_tasks", "list_tasks"]
    assert record.status is RecordStatus.INTERRUPTED


async def test_a_read_and_the_model_are_not_reached_after_a_stop(log: Database) -> None:
    server = StoppedDuring(log)
    writer = DatabaseAuditWriter(log)
    writer.permit.renew_seconds = 0.0
    engine = engine_of(calls(LIST), says("Never said."), server=server, audit=writer)
    record = (await engine.run(asks())).record
    assert server.sent_tools == ["list_tasks"]
    assert len([entry for entry in record.entries if entry.kind is EntryKind.MODEL]) == 1
    assert record.status is RecordStatus.INTERRUPTED


async def test_no_turn_begins_while_everything_is_stopped(log: Database) -> None:
    await place_stop(log, EVERYTHING.replace(say="We look into it."))
    engine = engine_of(says("Never said."), audit=DatabaseAuditWriter(log))
    with pytest.raises(ServiceError, match=r"We look into it\. Nothing was done\.") as refused:
        await engine.run(asks())
    assert refused.value.code is ServiceErrorCode.STOPPED


async def test_other_tools_and_users_go_on(log: Database) -> None:
    for stop in (stop_of(StopScope.TOOL, "delete_task"), stop_of(StopScope.USER, "bob"), stop_of(StopScope.SERVER, "shop")):
        await place_stop(log, stop)
    server = TableServer()
    engine = engine_of(calls(MILK), says("Added."), server=server, audit=DatabaseAuditWriter(log))
    assert (await engine.run(asks())).decision.reply == "Added."


async def test_a_resumed_service_goes_on_and_both_are_stated(log: Database) -> None:
    writer = DatabaseAuditWriter(log)
    placed = await place_stop(log, EVERYTHING)
    assert log.read_now(find_open_stops) == [placed]
    with pytest.raises(StoppedError):
        await engine_of(says("Hello."), audit=writer).run(asks())
    ended = await end_stop(log, placed.number, writer.permit.sealer, by="bob", reason="it was a test")
    assert (ended.ended_by, log.read_now(find_open_stops), log.read_now(list_stops)) == ("bob", [], [ended])
    assert (await engine_of(says("Hello."), audit=writer).run(asks())).decision.reply == "Hello."
    with pytest.raises(ServiceError, match=r"The stop 1 has ended already\."):
        await end_stop(log, placed.number, writer.permit.sealer, by="bob", reason="again")


@pytest.mark.parametrize("how", ["ended", "deleted"])
async def test_a_stop_that_was_ended_or_deleted_by_hand_goes_on(log: Database, how: str) -> None:
    writer = DatabaseAuditWriter(log, record_key=b"a key for tests only")
    placed = await place_stop(log, EVERYTHING)
    with pytest.raises(StoppedError):
        await writer.write_opening(opening())
    changed = (
        rule_stops.delete() if how == "deleted" else update(rule_stops).values(ended_at=placed.at, ended_by="me", mac="0" * 64)
    )
    log.write_now(lambda connection: connection.execute(changed).close())
    with pytest.raises(StoppedError):
        await writer.write_opening(opening())
    if how == "ended":
        # A process that has not seen it reads the MAC.
        with pytest.raises(StoppedError):
            await DatabaseAuditWriter(log, record_key=b"a key for tests only").write_opening(opening())
        await end_stop(log, placed.number, SEALER, by="bob", reason="now by its command")
        await writer.write_opening(opening())


async def test_a_change_that_was_sent_is_asked_about_while_it_is_stopped_and_not_sent_again(log: Database) -> None:
    server = StoppedDuring(log, answers={"add_task": failed(ToolErrorCode.TIMEOUT_ERROR)}, settlements=[done({"id": 1})])
    writer = DatabaseAuditWriter(log)
    writer.permit.renew_seconds = 0.0
    engine = engine_of(calls(MILK), says("Never said."), server=server, audit=writer)
    record = (await engine.run(asks())).record
    assert (server.sent_tools, len(server.settled)) == (["add_task"], 1)
    assert "Already done: Add task 'milk'." in record.decision.reply


class Bank(StoppedDuring):
    """Two servers: payments are made on one, and found on the other."""

    def server_of(self, tool_name: str) -> str:
        return {"pay": "bank", "find": "book"}[tool_name]

    def server_names(self) -> list[str]:
        return ["bank", "book"]


PAYMENT: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
PAY_RULES = """## Facts
- paid: find(amount = arguments.amount)

## Available Tools
- pay: Pay (without confirmation) (done if paid $.payments[?@.amount == arguments.amount])
- find: Find (reads) (trusted results)
"""


@pytest.mark.parametrize(("stopped", "sent"), [("book", ["pay"]), ("shop", ["pay", "find"])])
async def test_a_call_is_not_looked_for_on_a_server_that_is_stopped(log: Database, stopped: str, sent: list[str]) -> None:
    answers: Any = {"pay": failed(ToolErrorCode.TIMEOUT_ERROR), "find": done({"payments": [{"amount": 5}]})}
    tools = tuple(ToolDeclaration(name=name, description="", parameters=PAYMENT) for name in ("pay", "find"))
    bank = Bank(log, stop_of(StopScope.SERVER, stopped), answers=answers, ledger=False, served=tools)
    writer = DatabaseAuditWriter(log)
    writer.permit.renew_seconds = 0.0
    model = ScriptedAdapter([calls(("pay", {"amount": 5})), says("Paid.")])
    record = (await LLMAgentEngine(model, bank, PAY_RULES, **grouped(audit=writer, clock=ManualClock())).run(asks())).record
    assert bank.sent_tools == sent
    assert [one.tool_result.success for one in record.invocations] == [len(sent) == 2]


async def test_calls_that_were_intended_before_a_stop_are_named(log: Database) -> None:
    writer = DatabaseAuditWriter(log)
    await writer.write_opening(opening())
    operation = CallOperation(sequence=1, operation_key="d:1", user_id="ann", tool_name="add_task")
    assert await writer.write_progress("d", operation=operation)
    placed = await place_stop(log, EVERYTHING)
    assert log.read_now(lambda connection: calls_under_way(connection, placed)) == {"add_task": {"d"}}
    other = await place_stop(log, stop_of(StopScope.TOOL, "delete_task"))
    assert log.read_now(lambda connection: calls_under_way(connection, other)) == {}


async def test_nothing_is_sent_if_the_database_does_not_say_that_nothing_is_stopped(sqlite_url: str) -> None:
    # Its table is missing, as if it could not be read.
    database = Database.open(sqlite_url)
    permit = Permit(database, SEALER)
    with pytest.raises(RecordUnavailableError):
        await permit.renew()
    with pytest.raises(RecordUnavailableError):
        permit.require(Sending("ann"))
    await database.close()


@pytest.mark.postgresql
async def test_a_connection_that_hangs_while_it_intends_a_call_is_ended(fresh_postgresql_url: str) -> None:
    database, frozen = Database.open(fresh_postgresql_url), Database.open(fresh_postgresql_url)
    database.write_now(rule_stops.metadata.create_all)
    holds, ends = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(connection: Any) -> None:
        find_open_stops(connection, locked=True)
        loop.call_soon_threadsafe(holds.set)
        asyncio.run_coroutine_threadsafe(ends.wait(), loop).result()

    hanging = asyncio.create_task(frozen.write(hang))
    await holds.wait()
    await place_stop(database, EVERYTHING)
    ends.set()
    with pytest.raises(ServiceError):
        await hanging
    await database.close()
    await frozen.close()


async def test_an_erased_user_is_in_no_stop_and_its_end_stays_valid(log: Database) -> None:
    stop = stop_of(StopScope.USER, "ann", say="Ann is away.", reason="Ann asked for it", by="bob")
    placed = await place_stop(log, stop)
    await end_stop(log, placed.number, SEALER, by="ann", reason="Ann is back")
    for user in ("ann", "bob"):
        await log.write(partial(forget_user, user_id=user))
    (kept,) = log.read_now(list_stops)
    assert {kept.name, kept.say, kept.reason, kept.by, kept.ended_by, kept.end_reason} == {""}
    assert log.read_now(partial(ended_without_mac, sealer=SEALER)) == []


@pytest.mark.postgresql
async def test_a_stop_waits_for_a_commit_that_intends_a_call(fresh_postgresql_url: str) -> None:
    database = Database.open(fresh_postgresql_url)
    database.write_now(rule_stops.metadata.create_all)
    loop, reads, ends = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def intend(connection: Any) -> list[Stop]:
        found = find_open_stops(connection, locked=True)
        loop.call_soon_threadsafe(reads.set)
        asyncio.run_coroutine_threadsafe(ends.wait(), loop).result()
        return found

    intending = asyncio.create_task(database.write(intend))
    await reads.wait()
    stopping = asyncio.create_task(asyncio.to_thread(by_hand, database))
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    while not await database.read(lambda connection: connection.exec_driver_sql(waiting).scalar_one()):
        # Without the lock the stop would end here, and the intention would be committed after it.
        assert not stopping.done()
    ends.set()
    assert await intending == []
    await stopping
    assert [stop.reason for stop in await database.read(find_open_stops)] == ["by hand"]
    await database.close()


def opening() -> DecisionOpening:
    return DecisionOpening(decision_id="d", conversation_id="c", user_id="ann", message="add a task")


async def test_the_log_states_stops_and_verify_finds_what_was_changed_by_hand(migrated_database: Database) -> None:
    log, tree = migrated_database, tree_of(migrated_database, KEY)
    by_hand(log)
    second, third = [await place_stop(log, EVERYTHING) for _ in range(2)]
    await end_stop(log, 1, Sealer(KEY), by="bob", reason="over")
    assert await tree.seal() == 4
    assert (await verified(log)).violations == []
    log.write_now(
        lambda connection: connection.execute(rule_stops.delete().where(rule_stops.c.number == second.number)).close()
    )
    ended = update(rule_stops).values(ended_at=third.at, mac="0" * 64).where(rule_stops.c.number == third.number)
    log.write_now(lambda connection: connection.execute(ended).close())
    assert [violation.text for violation in (await verified(log)).violations] == [
        "the stop 2 is missing, which the log has stated: it was deleted by hand",
        "the stop 3 was ended by hand: it goes on",
    ]

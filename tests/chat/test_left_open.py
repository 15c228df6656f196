"""Decisions without a turn that were left open: due work, which any process does, and which is tried less and less often."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from graph_agent.chat.recovery import ABANDONED_AFTER
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.due.depth import DueRow, find_rows
from graph_agent.errors import ServiceError
from graph_agent.models.decision import DecisionContext
from graph_agent.record.tables import decision_logs
from graph_agent.record.tree.leaves import OPENING_COLUMNS, Sealer
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.turn.run import OpenedTurn
from tests.chat.environment import Environment
from tests.chat.stopped import Stop, Stopped, StoppingDatabase

UNREADABLE = 120
"""More than a process reads at a time."""
_TRY_AGAIN = timedelta(seconds=30)


@pytest.fixture
def environment(each_environment: Environment) -> Environment:
    return each_environment


async def open_decision(environment: Environment, user: str) -> str:
    """Open a decision in a process that dies before anything else."""
    engine = environment.engine()
    assert isinstance(engine.audit, DatabaseAuditWriter)
    snapshot, context = await engine.prepare(), DecisionContext(user_id=user, message="hello", conversation_id="c")
    header = engine.header(context, snapshot, f"decision of {user}", at=environment.clock.now())
    await engine.audit.write_opening(OpenedTurn(header, snapshot).opening)
    return header.decision_id


async def write_as_newer_version(environment: Environment, decision_id: str) -> None:
    """Give an opened decision a header that this version cannot read, with its seal."""
    of_decision = decision_logs.c.decision_id == decision_id

    def change(connection: Any) -> None:
        found = connection.execute(select(*decision_logs.c[OPENING_COLUMNS]).where(of_decision)).one()
        row = {**found._asdict(), "header": '{"of":"a newer version"}'}
        seal = Sealer(environment.record_key).opening_seals(row)[0]
        connection.execute(update(decision_logs).where(of_decision).values(header=row["header"], opening_seal=seal)).close()

    await environment.database.write(change)


async def due_rows(environment: Environment) -> list[DueRow]:
    return await environment.database.read(lambda connection: find_rows(connection, stuck=False, limit=1000))


async def test_decisions_that_cannot_be_closed_hide_no_newer_one_and_are_tried_less_often(
    environment: Environment, clock: ManualClock
) -> None:
    for number in range(UNREADABLE):
        await write_as_newer_version(environment, await open_decision(environment, f"user{number}"))
    clock.advance(seconds=1)
    readable = await open_decision(environment, "ann")
    clock.advance(seconds=ABANDONED_AFTER.total_seconds())
    chats = [environment.chat(), environment.chat()]
    # One of the two processes tries each of them.
    assert sum(await asyncio.gather(*(chat.serve_due() for chat in chats))) == 1
    assert [status for _, _, status in await environment.decisions()].count("interrupted") == 1
    rows = await due_rows(environment)
    assert len(rows) == UNREADABLE
    assert readable not in {row.key for row in rows}
    assert {(row.kind, row.attempts, row.due_at) for row in rows} == {("decision", 1, clock.now() + _TRY_AGAIN)}
    assert {row.error for row in rows} == {"ValidationError; the log of the server has more"}
    for again, attempts in ((_TRY_AGAIN, 2), (_TRY_AGAIN, 2), (_TRY_AGAIN, 3)):
        clock.advance(seconds=again.total_seconds())
        assert await chats[0].serve_due() == 0
        assert {row.attempts for row in await due_rows(environment)} == {attempts}


async def test_a_turn_that_cannot_be_finished_is_tried_once_at_a_time(environment: Environment, clock: ManualClock) -> None:
    left = Stopped(environment, 2, after=True)
    assert await left.send("ann", "add milk")
    forged = update(decision_logs).values(opening_seal="forged")
    await environment.database.write(lambda connection: connection.execute(forged).close())
    clock.advance(seconds=36)
    # Each try is another attempt of the turn, whose lease has expired when it fails.
    assert await environment.chat().serve_due() == 0
    assert await environment.turns() == [("running", 2)]
    await left.wake_up()


async def test_what_a_process_could_not_close_is_closed_by_another_one_if_it_dies_before(environment: Environment) -> None:
    database = environment.open_database(StoppingDatabase)
    # The second commit makes it due.
    database.stop, database.n, database.after, database.losing = Stop(), 2, True, 1
    engine = environment.engine(database=database)
    with pytest.raises(ServiceError, match="SERVICE_UNAVAILABLE"):
        await engine.run(DecisionContext(user_id="ann", message="add milk", conversation_id="c"))
    other = environment.chat()
    assert await other.serve_due() == 0
    serving = asyncio.create_task(ChatService(engine, clock=environment.clock).serve_due())
    await database.stop.stopped.wait()
    assert [(row.kind, row.user_id) for row in await due_rows(environment)] == [("decision", "ann")]
    assert await other.serve_due() == 1
    assert await environment.decisions() == [("RESPOND_ONLY", "ERROR:RESPONSE_GENERATION", "interrupted")]
    database.stop.wakes_up.set()
    await serving
    assert len(await environment.decisions()) == 1
    assert await due_rows(environment) == []
    await database.close()

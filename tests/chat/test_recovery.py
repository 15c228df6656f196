"""Recovery of a turn whose process stops at any of its commits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest

from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import TurnRequest, TurnStore
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import DecisionContext
from graph_agent.models.record import MAX_INTEGER, DecisionOpening
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.reply.fixed import FAILURE_REPLY
from graph_agent.testing import says
from graph_agent.turn.run import OpenedTurn
from tests.chat.environment import Environment, GatedModel
from tests.chat.stopped import LosingDatabase, Stopped

T = TypeVar("T")

_AFTER_THE_LEASE = {"seconds": 36}
_COMMITS = 40
"""An upper bound of the commits of a turn; the loops below end before."""


@pytest.fixture
def environment(each_environment: Environment) -> Environment:
    return each_environment


@pytest.fixture(autouse=True)
def no_error_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [entry.getMessage() for entry in caplog.get_records("call") if entry.levelno >= logging.ERROR] == []


async def test_the_same_request_continues_where_a_process_stopped(
    environment: Environment, clock: ManualClock, after: bool
) -> None:
    for n in range(1, _COMMITS):
        user = f"user{n}"
        left = Stopped(environment, n, after=after)
        if not await left.send(user, "add milk", idem_key="k"):
            await left.wake_up()
            break
        clock.advance(**_AFTER_THE_LEASE)
        chat = environment.chat()
        answer = await chat.send(user, "add milk", idem_key="k")
        assert answer.decision.effects == ["Add task 'milk'"], f"commit {n}"
        assert await environment.descriptions(user) == ["milk"]
        late = await left.wake_up()
        assert late == answer or isinstance(late, ServiceError)
        assert await chat.send(user, "add milk", idem_key="k") == answer
        assert await environment.descriptions(user) == ["milk"]
        shown = await chat.conversation(user, answer.conversation_id)
        assert [message.content for message in shown.messages] == ["add milk", answer.reply]
    assert 2 < n < _COMMITS
    assert {(status, outcome) for _, outcome, status in await environment.decisions()} == {
        ("completed", "SUCCESS:TASK_COMPLETED")
    }
    assert len(await environment.decisions()) == n
    assert {state for state, _ in await environment.turns()} == {"done"}


async def test_the_sweeper_finishes_an_abandoned_turn_and_reports_what_was_done(
    environment: Environment, clock: ManualClock, after: bool
) -> None:
    for n in range(1, _COMMITS):
        user = f"user{n}"
        left = Stopped(environment, n, after=after)
        if not await left.send(user, "add milk", idem_key="k"):
            await left.wake_up()
            break
        chat = environment.chat()
        assert await chat.serve_due() == 0
        clock.advance(**_AFTER_THE_LEASE)
        running = len([state for state, _ in await environment.turns() if state == "running"])
        assert await chat.serve_due() == running
        assert await chat.serve_due() == 0
        done = await environment.descriptions(user)
        late = await left.wake_up()
        answer = await chat.send(user, "add milk", idem_key="k")
        assert late == answer or isinstance(late, ServiceError)
        assert await environment.descriptions(user) in ([], ["milk"])
        if done:
            # What was done is told, whether the turn got to its words or not.
            assert "milk" in answer.reply
            assert await environment.descriptions(user) == done
    assert 2 < n < _COMMITS
    assert {state for state, _ in await environment.turns()} == {"done"}
    assert "PENDING" not in {status for _, _, status in await environment.decisions()}


async def test_a_refused_turn_whose_claim_was_committed_late_is_closed_by_the_next_sweep(
    environment: Environment, clock: ManualClock
) -> None:
    database = environment.open_database(LosingDatabase)
    database.losing = 1
    chat = environment.chat(database=database)
    with pytest.raises(ServiceError) as refused:
        await chat.send("ann", "add milk", idem_key="k")
    assert refused.value.code is ServiceErrorCode.SERVICE_UNAVAILABLE
    assert await environment.turns() == [("running", 1)]
    clock.advance(**_AFTER_THE_LEASE)
    # In the same process, which does not take the turn for one of its own.
    assert await chat.serve_due() == 1
    assert await environment.turns() == [("done", 2)]
    assert await environment.decisions() == [("RESPOND_ONLY", "ERROR:RESPONSE_GENERATION", "interrupted")]
    assert await environment.descriptions("ann") == []
    await database.close()


async def test_a_refused_decision_without_a_turn_that_was_committed_late_is_closed_by_the_next_sweep(
    environment: Environment,
) -> None:
    database = environment.open_database(LosingDatabase)
    database.losing = 1
    engine = environment.engine(database=database)
    with pytest.raises(ServiceError) as refused:
        await engine.run(_context("add milk"))
    assert refused.value.code is ServiceErrorCode.SERVICE_UNAVAILABLE
    # Another process cannot know whether it runs.
    assert await environment.chat().serve_due() == 0
    assert await ChatService(engine, clock=environment.clock).serve_due() == 1
    assert await environment.decisions() == [("RESPOND_ONLY", "ERROR:RESPONSE_GENERATION", "interrupted")]
    assert await environment.descriptions("ann") == []
    await database.close()


async def test_a_decision_that_runs_is_not_closed_by_its_own_process_however_old_it_is(
    environment: Environment, clock: ManualClock
) -> None:
    model = GatedModel([says("Done.")])
    engine = environment.engine(model)
    running = asyncio.create_task(engine.run(_context()))
    await model.asked.acquire()
    # The clock of the database is an hour ahead of the one by which the decision began.
    environment.database.clock = ManualClock(clock.now() + timedelta(hours=1))
    assert await ChatService(engine, clock=clock).serve_due() == 0
    model.gate.set()
    assert (await running).decision.response_text == "Done."


async def test_two_sweeps_at_once_finish_a_turn_once(environment: Environment, clock: ManualClock) -> None:
    left = Stopped(environment, 2, after=True)
    assert await left.send("ann", "add milk", idem_key="k")
    clock.advance(**_AFTER_THE_LEASE)
    assert sum(await asyncio.gather(*(environment.chat().serve_due() for _ in range(4)))) == 1
    await left.wake_up()
    assert await environment.turns() == [("done", 2)]


async def test_a_turn_that_was_left_open_for_a_month_is_closed(environment: Environment, clock: ManualClock) -> None:
    """Its milliseconds are more than an integer column of PostgreSQL can have."""
    left = Stopped(environment, 2, after=True)
    assert await left.send("ann", "add milk", idem_key="k")
    clock.advance(days=30)
    assert await environment.chat().serve_due() == 1
    await left.wake_up()
    assert await environment.turns() == [("done", 2)]
    assert (await environment.records())[0].duration_ms == MAX_INTEGER


async def test_one_sweep_finishes_every_turn_that_was_left_open(environment: Environment, clock: ManualClock) -> None:
    engine = environment.engine()
    snapshot = await engine.prepare()
    audit = DatabaseAuditWriter(environment.database, clock=clock)
    turns = TurnStore(audit, clock=clock, ids=RandomIds(), lease=timedelta(seconds=5), turns_per_minute=1000)

    def opening(decision_id: str, context: DecisionContext, at: datetime) -> DecisionOpening:
        return OpenedTurn(engine.header(context, snapshot, decision_id, at=at), snapshot).opening

    # More than the sweeper reads at a time.
    for number in range(120):
        assert isinstance(await turns.claim(TurnRequest(f"user{number}", "add milk"), opening), ClaimedTurn)
    assert await turns.count_open() == 120
    clock.advance(**_AFTER_THE_LEASE)
    assert await environment.chat().serve_due() == 120
    assert await turns.count_open() == 0
    assert {state for state, _ in await environment.turns()} == {"done"}


async def test_another_message_finishes_the_abandoned_turn_of_its_conversation(
    environment: Environment, clock: ManualClock
) -> None:
    chat = environment.chat()
    conversation = (await chat.send("ann", "hello")).conversation_id
    left = Stopped(environment, 2, after=True)
    assert await left.send("ann", "add milk", conversation_id=conversation)
    with pytest.raises(ServiceError) as busy:
        await chat.send("ann", "add eggs", conversation_id=conversation)
    assert busy.value.code == ServiceErrorCode.CONVERSATION_BUSY
    clock.advance(**_AFTER_THE_LEASE)
    assert (await chat.send("ann", "add eggs", conversation_id=conversation)).decision.effects == ["Add task 'eggs'"]
    assert await environment.descriptions() == ["eggs"]
    assert (await environment.said())[2:5] == ["add milk", FAILURE_REPLY, "add eggs"]
    await left.wake_up()
    assert await environment.descriptions() == ["eggs"]


async def test_a_caller_cancelled_during_the_claim_leaves_a_closed_record_and_an_answer(environment: Environment) -> None:
    process = Stopped(environment, 1, after=False)
    assert await process.send("ann", "add milk", idem_key="k")
    assert process.sending is not None
    process.sending.cancel()
    # The process goes on, without its caller.
    with pytest.raises(asyncio.CancelledError):
        await process.wake_up()
    assert await environment.decisions() == [("RESPOND_ONLY", "ERROR:RESPONSE_GENERATION", "interrupted")]
    assert await environment.turns() == [("done", 1)]
    assert (
        await environment.chat().send("ann", "add milk", idem_key="k")
    ).reply == "This was stopped, so I did nothing further."
    assert await environment.descriptions() == []


async def test_a_decision_without_a_turn_is_closed_once_it_is_old(environment: Environment, clock: ManualClock) -> None:
    left = Stopped(environment, 2, after=False)
    steps = left.engine.step(_context())
    walking = asyncio.create_task(_to_the_end(steps))
    await left.stop.stopped.wait()
    chat = environment.chat()
    clock.advance(minutes=5)
    assert await chat.serve_due() == 0
    clock.advance(minutes=6)
    assert await chat.serve_due() == 1
    assert await environment.decisions() == [("RESPOND_ONLY", "ERROR:RESPONSE_GENERATION", "interrupted")]
    # The stopped process continues: its commit comes too late.
    left.sending = walking
    walking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left.wake_up()
    assert len(await environment.decisions()) == 1


def _context(message: str = "hello") -> DecisionContext:
    return DecisionContext(user_id="ann", message=message, conversation_id="c")


async def _to_the_end(steps: Any) -> None:
    async for _ in steps:
        pass

"""Leases are short, renewed while a turn runs, and lost by a process that cannot renew them."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, suppress

import pytest

from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import TurnStore
from graph_agent.chat.leases import LEASE, LeaseKeeper
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import DatabaseUnavailableError
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.record import EntryKind
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import calls, says
from graph_agent.turn.handle import TurnHandle
from tests.chat.environment import Environment, GatedModel
from tests.frozen_clock import freeze_loop_time


async def _advance(environment: Environment, clock: ManualClock, seconds: float) -> None:
    """Advance the clock in small steps, and wait for the renewals that each step starts."""
    for _ in range(round(seconds / 0.5)):
        clock.advance(seconds=0.5)
        for _ in range(2):
            for _ in range(10):
                await asyncio.to_thread(time.sleep, 0.001)
            # A database writes in the order of the calls, so a renewal that was started has ended now.
            with suppress(DatabaseUnavailableError):
                await environment.database.write(lambda _: None)


async def test_a_turn_that_runs_longer_than_a_lease_keeps_its_claim(environment: Environment, clock: ManualClock) -> None:
    freeze_loop_time(clock)
    model = GatedModel([says("hi")])
    running = asyncio.create_task(environment.chat(model).send("ann", "hello"))
    await model.asked.acquire()
    await _advance(environment, clock, 3 * LEASE.total_seconds())
    assert await environment.chat().serve_due() == 0
    model.gate.set()
    assert (await running).reply == "hi"
    assert await environment.turns() == [("done", 1)]


async def test_a_turn_whose_claim_is_lost_neither_acts_nor_writes(environment: Environment, clock: ManualClock) -> None:
    freeze_loop_time(clock)
    model = GatedModel([calls("add_task", description="milk"), says("Added.")])
    running = asyncio.create_task(environment.chat(model).send("ann", "add milk", idem_key="k"))
    await model.asked.acquire()
    await environment.database.write(lambda connection: connection.exec_driver_sql("UPDATE turns SET attempt = 2") and None)
    await _advance(environment, clock, 3)
    model.gate.set()
    with pytest.raises(ServiceError) as refused:
        await running
    assert refused.value.code is ServiceErrorCode.REQUEST_IN_PROGRESS
    assert await environment.descriptions() == []
    assert await environment.decisions() == [("PENDING", "PENDING", "PENDING")]


async def test_of_two_attempts_in_one_process_the_later_one_keeps_the_claim(
    environment: Environment, clock: ManualClock
) -> None:
    audit = environment.engine().audit
    assert isinstance(audit, DatabaseAuditWriter)
    turns = TurnStore(audit, clock=clock, ids=RandomIds(), lease=LEASE, turns_per_minute=1000)
    keeper = LeaseKeeper(turns, clock=clock)
    first, second = (ClaimedTurn("d", "ann", "c", attempt, clock.now()) for attempt in (1, 2))
    earlier, later = TurnHandle[None]("d", "ann"), TurnHandle[None]("d", "ann")
    with ExitStack() as kept:
        with keeper.keep_claim(first, earlier, 0.0):
            kept.enter_context(keeper.keep_claim(second, later, 0.0))
            assert (earlier.fenced, later.fenced) == (True, False)
        assert keeper.is_running("d")
    assert not keeper.is_running("d")


async def test_a_turn_that_is_stopped_in_another_process_ends_with_the_next_renewal(
    environment: Environment, clock: ManualClock
) -> None:
    freeze_loop_time(clock)
    model = GatedModel([says("too late")])
    running = asyncio.create_task(environment.chat(model).send("ann", "hello"))
    await model.asked.acquire()
    other = environment.chat()
    select = "SELECT id FROM turns"
    decision_id = await environment.database.read(lambda connection: str(connection.exec_driver_sql(select).scalar_one()))
    assert not await other.stop(decision_id, "bob")
    await _advance(environment, clock, 3)
    assert not running.done()
    assert await other.stop(decision_id, "ann")
    await _advance(environment, clock, 3)
    assert (await running).decision.outcome_category == "ERROR:RESPONSE_GENERATION"
    assert not await other.stop(decision_id, "ann")
    [record] = await environment.records()
    assert [entry.result["reason"] for entry in record.entries if entry.kind is EntryKind.INTERRUPT] == ["cancelled"]


async def test_a_turn_that_cannot_renew_its_lease_is_fenced_and_its_outcome_is_unknown(
    environment: Environment, clock: ManualClock
) -> None:
    freeze_loop_time(clock)
    model = GatedModel([says("hi")])
    running = asyncio.create_task(environment.chat(model).send("ann", "hello"))
    await model.asked.acquire()
    await asyncio.to_thread(environment.database.close_now)
    await _advance(environment, clock, LEASE.total_seconds() + 1)
    with pytest.raises(ServiceError) as unknown:
        await running
    assert unknown.value.code is ServiceErrorCode.OUTCOME_UNKNOWN

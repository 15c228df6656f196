"""A running turn: its tasks, listeners, cancellation and result."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.graph.step import Step
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import InterruptReason, RecordStatus
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from graph_agent.turn.handle import TurnHandle
from graph_agent.turn.run import PlainSession, TurnStart
from tests.frozen_clock import freeze_loop_time
from tests.scripted_turns import TableServer, asks, calls, engine_of, grouped

ADD = ("add_task", {"description": "call mom"})


class WaitingModel:
    """A model that answers when it is released."""

    model = "waiting"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.released = asyncio.Event()

    async def generate(self, *_: Any, **__: Any) -> LLMResponse:
        self.asked.set()
        await self.released.wait()
        return says("hi")

    def get_tool_declarations(self, tools: list[str]) -> list[Any]:
        raise AssertionError(tools)


def start(engine: LLMAgentEngine) -> TurnHandle[FinishedTurn | None]:
    return engine.start(TurnStart(asks()), PlainSession(), user_id="ann")


def waiting_engine(**settings: Any) -> tuple[LLMAgentEngine, WaitingModel]:
    model = WaitingModel()
    return LLMAgentEngine(model, TableServer(), engine_of().constitution.text, **grouped(**settings)), model


async def test_a_turn_has_two_tasks() -> None:
    engine, model = waiting_engine()
    await engine.prepare()
    before = asyncio.all_tasks()
    run = start(engine)
    await model.asked.wait()
    ours = [task for task in asyncio.all_tasks() - before if task.get_coro().__qualname__.startswith("TurnRun")]  # type: ignore[union-attr]  # a coroutine has a name
    assert len(ours) == 2
    model.released.set()
    await run.result()
    assert asyncio.all_tasks() == before


async def test_every_listener_sees_every_step_whenever_it_comes() -> None:
    engine, model = waiting_engine()
    run = start(engine)
    await model.asked.wait()
    leaves = run.stream_steps()
    first = await anext(leaves)
    await leaves.aclose()
    stays = asyncio.create_task(_states(run))
    await asyncio.sleep(0)
    model.released.set()
    finished = await _finished(run)
    assert first.state == "BUILD_REQUEST"
    assert await stays == finished.record.states
    assert await _states(run) == finished.record.states


async def _finished(run: TurnHandle[FinishedTurn | None]) -> FinishedTurn:
    finished = await run.result()
    assert finished is not None
    return finished


async def _states(run: TurnHandle[Any]) -> list[str]:
    async with aclosing(run.stream_steps()) as steps:
        return [step.state async for step in steps]


async def test_listeners_see_how_a_turn_is_ended_at_its_deadline() -> None:
    clock = freeze_loop_time(ManualClock())
    engine, model = waiting_engine(clock=clock)
    run = start(engine)
    listening = asyncio.create_task(_states(run))
    await model.asked.wait()
    clock.advance(seconds=30)
    finished = await _finished(run)
    assert finished.record.status is RecordStatus.INTERRUPTED
    assert finished.record.entries[-1].result["reason"] == InterruptReason.DEADLINE
    assert await listening == finished.record.states
    assert [*map(_state, run.steps)] == finished.record.states


def _state(step: Step) -> str:
    return step.state


@pytest.mark.parametrize("reason", [InterruptReason.CANCELLED, InterruptReason.SHUTDOWN])
async def test_the_record_says_who_ended_a_turn(reason: InterruptReason) -> None:
    engine, model = waiting_engine()
    run = start(engine)
    await model.asked.wait()
    if reason is InterruptReason.SHUTDOWN:
        await engine.aclose()
    run.cancel()
    finished = await _finished(run)
    assert finished.record.entries[-1].result["reason"] == reason


async def test_a_caller_that_is_cancelled_leaves_only_after_the_record_is_closed() -> None:
    audit = MemoryAuditWriter()
    engine, model = waiting_engine(audit=audit)
    run = start(engine)
    waiting = asyncio.create_task(run.result())
    await model.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (record,) = audit.records.values()
    assert record.entries[-1].result["reason"] == InterruptReason.CANCELLED
    assert (await _finished(run)).record == record


async def test_a_turn_that_is_closing_is_not_cancelled_any_more() -> None:
    closing, goes_on = asyncio.Event(), asyncio.Event()

    class SlowLog(MemoryAuditWriter):
        async def close_decision_log(self, record: Any) -> Any:
            closing.set()
            await goes_on.wait()
            return await super().close_decision_log(record)

    engine = engine_of(calls(ADD), says("Added."), audit=SlowLog())
    run = start(engine)
    await closing.wait()
    run.cancel()
    goes_on.set()
    assert (await _finished(run)).record.status is RecordStatus.COMPLETED


async def test_the_path_of_a_record_is_that_of_one_walk_whatever_was_reported() -> None:
    engine, model = waiting_engine()
    run = start(engine)
    await model.asked.wait()
    run.add_step(run.steps[0])
    model.released.set()
    assert (await _finished(run)).record.states == ["BUILD_REQUEST", "INVOKE_LLM", "CHECK_RESPONSE", "BUILD_DECISION"]


async def test_an_engine_knows_its_running_turns() -> None:
    engine, model = waiting_engine()
    run = start(engine)
    assert engine.running(run.decision_id) is run
    assert engine.running("another") is None
    model.released.set()
    await run.result()
    assert engine.running(run.decision_id) is None


async def test_a_run_that_fails_before_its_first_step_says_why() -> None:
    audit = MemoryAuditWriter()
    audit.available = False
    run = start(engine_of(says("hi"), audit=audit))
    with pytest.raises(Exception, match="cannot be recorded"):
        await run.begun()
    assert run.failure is not None
    assert run.steps == []

"""The order of writes, and faults, cancellations and takeovers at every step of a turn."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.errors import RecordUnavailableError, ServiceError, TurnTakenOverError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import LLMResponse
from graph_agent.models.tools import ToolResult
from graph_agent.policy.constitution import Constitution
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.frozen_clock import pass_time
from tests.invariants.adversary import Adversary
from tests.invariants.calls import ADD, LIST, VOIDED
from tests.invariants.checks import CANARY, CONFIRMED_TOOL
from tests.invariants.installation import FAULTS, LOG_WRITES, FaultInjector, open_installation
from tests.scripted_turns import TableServer, asks, calls, done, engine_of, grouped


async def test_each_row_is_written_before_the_next_step_begins() -> None:
    events: list[str] = []

    class RecordsItsCalls(MemoryAuditWriter):
        def __getattribute__(self, name: str) -> Any:
            if name.startswith(("write_", "close_")):
                events.append(name)
            return super().__getattribute__(name)

    def answer(response: LLMResponse) -> Callable[..., LLMResponse]:
        return lambda *_: events.append("model") or response  # type: ignore[func-returns-value]  # `append` returns None, so the response is returned

    def act(_: dict[str, Any]) -> ToolResult:
        events.append("tool")
        return done()

    engine = engine_of(
        answer(calls(ADD)), answer(says("Added.")), server=TableServer({"add_task": act}), audit=RecordsItsCalls()
    )
    await engine.run(asks())
    assert events == [
        "write_opening",
        "model",
        "write_progress",
        "tool",
        "write_progress",
        "model",
        "close_decision_log",
    ]


@pytest.mark.parametrize("ask_model", [True, False])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("kind", [*FAULTS, "log"])
async def test_a_fault_anywhere_leaves_one_terminal_row_that_reports_every_effect(
    kind: str, before: bool, ask_model: bool, tmp_path: Path
) -> None:
    operations = LOG_WRITES if kind == "log" else {"generate", "execute", "preview", "consume"}
    failed: set[str] = set()
    async with open_installation(tmp_path) as installation:
        for at in itertools.count(1):
            user = f"user{at}"
            task = await installation.add(user, "water the plants")
            faults = FaultInjector(at, before=before, only=lambda name: name in operations)
            faults.make = FAULTS.get(kind, lambda: RecordUnavailableError(CANARY))
            script = [calls(LIST, ADD), calls((CONFIRMED_TOOL, {"task_id": task}), content="He said yes.")]
            engine = installation.engine(Adversary(script), faults)
            decision = await attempted(engine, asks("delete it", user_id=user))
            if decision is not None and decision.pending_action is not None:
                await attempted(engine, asks("yes", user_id=user, pending_confirmation=decision.pending_action))
            again = installation.engine(Adversary([says("That is what I know.")]))
            for (decision_id,) in await installation.rows(
                installation.log, "SELECT decision_id FROM decision_logs WHERE status = 'PENDING'"
            ):
                assert await again.finish(decision_id, ask_model=ask_model) is not None
            assert (await installation.descriptions(user)).count("call mom") <= 1
            if faults.failed is None:
                assert await installation.descriptions(user) == ["call mom"]
                break
            failed.add(faults.failed)
        await installation.check()
        assert failed == operations, "every operation failed once"


async def attempted(engine: LLMAgentEngine, context: DecisionContext) -> Any:
    """Return the decision, or None if the request was refused because it cannot be recorded; no other error may leave."""
    try:
        return await engine.process_message(context)
    except (ServiceError, TurnTakenOverError) as exc:
        message = str(exc)
    assert CANARY not in message
    return None


@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancellation_at_any_step_leaves_a_closed_row(times: int) -> None:
    """The caller is cancelled at every single step of the event loop, once or twice."""

    async def add_slowly(_: dict[str, Any]) -> ToolResult:
        for _step in range(3):
            await asyncio.sleep(0)
        return done({"preview": "call mom"})

    class SlowServer(TableServer):
        async def settle(self, *arguments: Any, **named: Any) -> ToolResult:
            for _step in range(3):
                await asyncio.sleep(0)
            return await super().settle(*arguments, **named)

    class SlowModel(ScriptedAdapter):
        async def generate(self, *arguments: Any, **named: Any) -> LLMResponse:
            for _step in range(3):
                await asyncio.sleep(0)
            return await super().generate(*arguments, **named)

    graph = engine_of().graph
    effects_of_cancelled_turns = set()
    for ticks in itertools.count():
        server = SlowServer({"add_task": add_slowly}, settlements=[done({"preview": "call mom"})])
        audit = MemoryAuditWriter()
        model = SlowModel([calls(ADD), says("Added.")])
        engine = LLMAgentEngine(model, server, Constitution.load().text, **grouped(audit=audit, graph=graph))
        turn = asyncio.ensure_future(engine.run(asks()))
        for _ in range(ticks):
            await asyncio.sleep(0)
        if turn.done():
            assert turn.result().decision.effects == ["Add task 'call mom'"]
            break
        for _ in range(times):
            turn.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(turn, return_exceptions=True)
        await engine.aclose()
        assert audit.open == {}, f"left open after {ticks} steps"
        assert len(audit.records) <= 1
        for record in audit.records.values():
            assert record.decision.effects == (["Add task 'call mom'"] if server.sent else [])
            effects_of_cancelled_turns.add(tuple(record.decision.effects))
    assert effects_of_cancelled_turns == {(), ("Add task 'call mom'",)}, "cancelled before and after the call"


async def test_a_recovery_cancelled_at_any_step_keeps_the_recorded_effects() -> None:
    """The recovery of a dead process's turn may be cancelled at any step of the event loop."""
    graph = engine_of().graph
    adds = [("add_task", {"description": f"task {n}"}) for n in range(3)]
    source = MemoryAuditWriter()
    steps: Any = engine_of(calls(*adds), server=TableServer(), audit=source).step(asks())
    async for step in steps:
        if step.state == "EXECUTE_TOOLS":
            break
    (decision_id,) = source.open
    header, entries = source.open[decision_id], list(source.entries[decision_id])
    await steps.aclose()
    closed_by_cancelled_recovery = False
    for ticks in itertools.count():
        audit = MemoryAuditWriter()
        audit.open, audit.entries, audit.blobs = {decision_id: header}, {decision_id: list(entries)}, source.blobs
        server = TableServer(settlements=[VOIDED] * 5)
        engine = engine_of(says("Added."), server=server, audit=audit, graph=graph)
        turn = asyncio.ensure_future(engine.finish(decision_id, ask_model=True))
        for _ in range(ticks):
            await asyncio.sleep(0)
        if turn.done():
            break
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        for record in audit.records.values():
            assert record.decision.effects == [f"Add task 'task {n}'" for n in range(3)], f"lost after {ticks} steps"
        assert server.sent == []
        closed_by_cancelled_recovery |= bool(audit.records)
    assert closed_by_cancelled_recovery


@pytest.mark.parametrize("ledger", [True, False])
async def test_a_recovery_sends_a_change_again_only_to_a_server_with_a_ledger(ledger: bool) -> None:
    class FailsAfterTheCall(MemoryAuditWriter):
        async def write_progress(self, decision_id: str, **progress: Any) -> bool:
            if progress.get("invocation") is not None:
                self.available = False
            return await super().write_progress(decision_id, **progress)

    audit, server, clock = FailsAfterTheCall(), TableServer(ledger=ledger), ManualClock()
    with pytest.raises(ServiceError):
        await pass_time(clock, engine_of(calls(ADD), server=server, audit=audit, clock=clock).run(asks()))
    (decision_id,) = audit.open
    recovered = MemoryAuditWriter()
    recovered.open, recovered.entries, recovered.blobs = audit.open, audit.entries, audit.blobs
    finished = await engine_of(says("Well."), server=server, audit=recovered).finish(decision_id, ask_model=True)
    keys = [key for *_, key in server.sent]
    assert keys == [f"{decision_id}:1"] * (2 if ledger else 1)
    assert finished is not None
    assert (finished.decision.effects, finished.decision.notices) == (
        (["Add task 'call mom'"], []) if ledger else ([], ["Not known whether this was done: Add task 'call mom'."])
    )


@pytest.mark.parametrize("log", ["database", "memory"])
async def test_a_process_whose_turn_was_taken_over_stops(log: str, tmp_path: Path) -> None:
    reached, resumed = asyncio.Event(), asyncio.Event()

    class WaitsBeforeItsSecondAnswer(Adversary):
        async def generate(self, *arguments: Any, **named: Any) -> LLMResponse:
            if self.requests:
                reached.set()
                await resumed.wait()
            return await super().generate(*arguments, **named)

    async with open_installation(tmp_path) as installation:
        ports: dict[str, Any] = {"audit": MemoryAuditWriter()} if log == "memory" else {}
        second = calls(("add_task", {"description": "second"}), LIST)
        slow = installation.engine(WaitsBeforeItsSecondAnswer([calls(ADD), second, says("Added both.")]), **ports)
        turn = asyncio.create_task(slow.run(asks(), decision_id="d1"))
        await reached.wait()
        ended = await installation.engine(Adversary([says("Never asked.")]), **ports).finish("d1", ask_model=False)
        assert ended is not None
        resumed.set()
        with pytest.raises(TurnTakenOverError):
            await turn
        assert await installation.descriptions("ann") == ["call mom"]
        assert ended.decision.effects == ["Add task 'call mom'"]
        if log == "database":
            await installation.check()

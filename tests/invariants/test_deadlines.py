"""Deadlines, when a model, a tool server or a database hangs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.errors import ServiceError
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.record import RecordStatus
from graph_agent.policy.signature import Signer
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.frozen_clock import freeze_loop_time
from tests.invariants.adversary import Adversary
from tests.invariants.calls import ADD, CONSTITUTION, DELETE, PREVIEWS, UNKNOWN, VOIDED
from tests.invariants.checks import CONFIRMED_TOOL, check_turn, confirmed_action
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, grouped


class Hanging:
    """A call that advances `clock` by `seconds` and never returns; if `stubborn`, it ignores nine cancellations."""

    def __init__(self, clock: ManualClock, seconds: float, *, stubborn: bool) -> None:
        self._clock = clock
        self._seconds = seconds
        self._ignored = 9 if stubborn else 0
        self.released = asyncio.Event()

    async def hang(self, *_: Any, **__: Any) -> Any:
        self._clock.advance(seconds=self._seconds)
        while True:
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                if self._ignored == 0:
                    raise
                self._ignored -= 1
                continue
            return done({"receipt": "late"})


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.parametrize(
    ("port", "given_up_after"),
    [
        ("model", 0.46),
        ("tool", 0.36),
        ("settlement", 0.38),
        ("preview", 0.36),
        ("start", 0.26),
        ("confirmation", 0.11),
        ("log", 2.01),
    ],
)
async def test_a_turn_is_answered_within_its_deadline_whatever_hangs(port: str, given_up_after: float, stubborn: bool) -> None:
    """The deadline is 0.5 s: a call has 0.1 s of it, a settlement 0.125 s, a start 0.25 s; only a log may take longer."""
    clock = freeze_loop_time(ManualClock())
    hanging = Hanging(clock, given_up_after, stubborn=stubborn)
    added = done({"preview": "call mom"})
    server = TableServer({"add_task": added}, PREVIEWS, settlements=[UNKNOWN] * 9)
    model = Adversary([calls(ADD), calls(DELETE), says("Well.")])
    ports: dict[str, Any] = {}
    match port:
        case "model":
            model.generate = hanging.hang  # type: ignore[method-assign]  # a fault takes the place of the method
        case "tool":
            server.answers["add_task"] = hanging.hang
        case "settlement":
            server.answers["add_task"] = UNKNOWN
            server.settle = hanging.hang  # type: ignore[method-assign]  # a fault takes the place of the method
        case "preview":
            server.preview = hanging.hang  # type: ignore[method-assign]  # a fault takes the place of the method
        case "start":
            server.start = hanging.hang  # type: ignore[method-assign]  # a fault takes the place of the method
        case "confirmation":
            ports["confirmations"] = type("HangingConfirmations", (), {"consume": hanging.hang})()
        case "log":
            ports["audit"] = MemoryAuditWriter()
            ports["audit"].close_decision_log = hanging.hang
    config = AgentEngineConfig(timeout_seconds=0.5)
    signer = Signer(SECRET)
    engine = LLMAgentEngine(
        model, server, CONSTITUTION, **grouped(config=config, clock=clock, signer=signer, call_seconds=0.1, **ports)
    )
    pending = confirmed_action(signer, clock.now(), server=server)
    if port == "log":
        with pytest.raises(ServiceError):
            await engine.run(asks())
        hanging.released.set()
        return
    finished = await engine.run(asks("yes", pending_confirmation=pending) if port == "confirmation" else asks())
    assert 0 < clock.monotonic() < 0.5
    check_turn(finished, [call for call in server.sent if call[0] != CONFIRMED_TOOL])
    if port in ("tool", "settlement"):
        assert finished.decision.notices[0] == "Not known whether this was done: Add task 'call mom'."
    hanging.released.set()
    await asyncio.sleep(0)


async def test_an_abandoned_task_can_no_longer_write() -> None:
    clock, audit = freeze_loop_time(ManualClock()), MemoryAuditWriter()
    hanging = Hanging(clock, 0.28, stubborn=True)
    model = Adversary([calls(ADD, ("add_task", {"description": "second"})), says("Added.")])
    server = TableServer({"add_task": hanging.hang}, settlements=[VOIDED] * 2)
    config = AgentEngineConfig(timeout_seconds=0.3)
    engine = LLMAgentEngine(model, server, CONSTITUTION, **grouped(config=config, clock=clock, audit=audit, call_seconds=0.05))
    finished = await engine.run(asks())
    assert finished.record.status is RecordStatus.INTERRUPTED
    before = (dict(audit.records), dict(audit.invocations), dict(audit.entries), len(server.sent), len(model.requests))
    hanging.released.set()
    for _ in range(200):
        await asyncio.sleep(0)
    assert (dict(audit.records), dict(audit.invocations), dict(audit.entries), len(server.sent), len(model.requests)) == before

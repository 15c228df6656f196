"""The last seconds of a turn: no change is sent, and a call in flight is settled in its own time."""

from __future__ import annotations

import asyncio
from typing import Any

from graph_agent.clock import ManualClock
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.record import EntryKind, RecordStatus
from graph_agent.models.tools import ToolResult
from graph_agent.testing import says
from graph_agent.turn.external import TOO_LATE
from tests.frozen_clock import freeze_loop_time
from tests.scripted_turns import TableServer, asks, calls, done, engine_of

ADD = ("add_task", {"description": "call mom"})
LIST: tuple[str, dict[str, Any]] = ("list_tasks", {})


async def test_no_change_is_sent_with_less_than_two_seconds_left_and_the_model_reads_why() -> None:
    clock = freeze_loop_time(ManualClock())
    server = TableServer({"list_tasks": done({"tasks": []}), "add_task": done()})

    def late(*_: Any) -> Any:
        clock.advance(seconds=27.5)  # The graph has 29 of 30 seconds.
        return calls(LIST, ADD)

    config = AgentEngineConfig(timeout_seconds=30)
    engine = engine_of(late, says("I had no time left."), server=server, clock=clock, config=config)
    record = (await engine.run(asks())).record
    assert [name for name, *_ in server.sent] == ["list_tasks"]
    assert [call.error_message for call in record.invocations] == [None, TOO_LATE]
    assert record.status is RecordStatus.COMPLETED


async def test_a_call_in_flight_at_the_deadline_is_settled_within_two_seconds_after_it() -> None:
    """The call times out, the ledger hangs until the deadline, and answers 1.8 seconds later, when it is asked again."""
    clock = freeze_loop_time(ManualClock())

    async def pass_time() -> None:
        while True:
            for _step in range(50):
                await asyncio.sleep(0)
            clock.advance(seconds=0.05)

    async def hang(_: dict[str, Any]) -> ToolResult:
        never: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        return await never

    class SlowLedger(TableServer):
        asked = 0

        async def settle(self, *arguments: Any, **named: Any) -> ToolResult:
            self.asked += 1
            await asyncio.sleep(1.8 if self.asked > 1 else 60)
            return await super().settle(*arguments, **named)

    def late(*_: Any) -> Any:
        clock.advance(seconds=25.5)  # The graph has 28 of 30 seconds.
        return calls(ADD)

    server = SlowLedger({"add_task": hang}, settlements=[done({"preview": "call mom"})])
    config = AgentEngineConfig(timeout_seconds=30)
    time = asyncio.create_task(pass_time())
    finished = await engine_of(late, server=server, clock=clock, config=config).run(asks())
    time.cancel()
    assert finished.record.status is RecordStatus.INTERRUPTED
    assert finished.decision.effects == ["Add task 'call mom'"]
    assert [entry.kind for entry in finished.record.entries].count(EntryKind.SETTLE) == 1

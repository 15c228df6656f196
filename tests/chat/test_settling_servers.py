"""Outcomes are settled as soon as the server that knows them is back, and no other server or call holds them up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import select

from graph_agent.chat import settling
from graph_agent.chat.settling import OutcomeSettler
from graph_agent.clock import ManualClock, RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.due.table import DueTable
from graph_agent.due.tables import due
from graph_agent.due.tables import metadata as due_tables
from graph_agent.due.worker import DueWorker
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.policy.signature import Signer
from graph_agent.ports import Clock
from graph_agent.record.settlements import UnknownOutcomes
from graph_agent.record.tables import call_operations
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.engine import LLMAgentEngine
from tests.chat.task_servers import RestartedServer
from tests.record.trees import verified
from tests.scripted_turns import SECRET, asks, calls, grouped
from tests.settling import serve

CONSTITUTION = """# Constitution
You are an assistant.

## Available Tools
- first.add_task: Add a task
- second.add_task: Add a task

## Behavioral Rules
1. Do what the user says.
"""


class Installation:
    """Two servers, and processes that share a log."""

    def __init__(self, log: Database, folder: Path, clock: Clock) -> None:
        self.log, self.clock = log, clock
        self.first, self.second = (RestartedServer(name, folder) for name in ("first", "second"))
        self.tools = McpServerGroup(
            [self.first.config, self.second.config], granted=["first.add_task", "second.add_task"], clock=clock
        )
        log.write_now(due_tables.create_all)
        if isinstance(clock, ManualClock):
            log.clock = clock
        unknown = UnknownOutcomes(DueTable(log), self.tools.server_of)
        self.audit = DatabaseAuditWriter(log, clock=clock, unknown=unknown)

    def settler(self) -> OutcomeSettler:
        return OutcomeSettler(self.tools, self.log, clock=self.clock)

    async def lose(self, server: RestartedServer, count: int) -> list[str]:
        """Make calls whose outcome stays unknown, each in a decision of its own; return their keys, oldest first."""
        server.losing, keys = True, []
        for number in range(count):
            if isinstance(self.clock, ManualClock):
                self.clock.advance(seconds=1)
            script = [calls((f"{server.name}.add_task", {"description": f"task {number}"})), says("I do not know.")]
            ports = {"audit": self.audit, "clock": self.clock, "ids": RandomIds(), "signer": Signer(SECRET)}
            engine = LLMAgentEngine(ScriptedAdapter(script), self.tools, CONSTITUTION, **grouped(**ports))
            record = (await engine.run(asks())).record
            keys.append(f"{record.header.decision_id}:1")
        server.losing = False
        assert (await self.states())[-count:] == ["unknown"] * count
        return keys

    async def states(self) -> list[str]:
        query = select(call_operations.c.state).order_by(call_operations.c.intended_at)
        return [str(state) for state in await self.log.read(lambda connection: connection.execute(query).scalars().all())]


@asynccontextmanager
async def installed(log: Database, folder: Path, clock: Clock) -> AsyncIterator[Installation]:
    installation = Installation(log, folder, clock)
    servers = installation.first, installation.second
    try:
        for server in servers:
            await server.start()
        assert await installation.tools.start()
        yield installation
    finally:
        await installation.tools.aclose()
        for server in servers:
            await server.close()


@pytest.fixture
async def installation(log: Database, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Installation]:
    async with installed(log, tmp_path, clock) as opened:
        yield opened


async def test_the_calls_in_flight_are_settled_oldest_first_as_soon_as_their_server_is_back(
    installation: Installation, clock: ManualClock
) -> None:
    first, settler = installation.first, installation.settler()
    keys = await installation.lose(first, 10)
    await first.stop()
    for _ in range(12):
        # A minute without the server.
        assert await serve(settler) == 0
        clock.advance(seconds=settling.MAX_BACK_OFF_SECONDS)
    await first.start()
    assert await serve(settler) == 10
    assert sorted(first.asked) == sorted(keys)
    assert await installation.states() == ["done"] * 10
    assert (await verified(installation.log, key=None)).intact


async def test_a_silent_server_holds_up_no_other(installation: Installation) -> None:
    older, newer = await installation.lose(installation.first, 3), await installation.lose(installation.second, 3)
    silent = await installation.first.be_silent()
    settler = installation.settler()
    assert await serve(settler) == 3
    assert sorted(installation.second.asked) == newer
    assert await installation.states() == ["unknown"] * 3 + ["done"] * 3
    # In its pause it is not asked again.
    assert await serve(settler) == 0
    silent.close()
    assert installation.first.asked == []
    assert len(older) == 3


async def test_a_call_that_gets_no_answer_holds_up_no_other_of_its_server(
    installation: Installation, clock: ManualClock
) -> None:
    first, settler = installation.first, installation.settler()
    keys = await installation.lose(first, 8)
    # Two of the oldest: their users may have signed out, or their ledger rows may be of another request.
    first.unanswered = set(keys[:2])
    settled = 0
    for _ in range(8):
        settled += await serve(settler)
        clock.advance(seconds=settling.MAX_BACK_OFF_SECONDS)
    assert settled == 6
    assert await installation.states() == ["unknown"] * 2 + ["done"] * 6
    first.unanswered.clear()
    clock.advance(minutes=1)
    assert await serve(settler) == 2


async def test_two_processes_settle_each_call_once(installation: Installation) -> None:
    await installation.lose(installation.first, 5)
    settled = await asyncio.gather(*(serve(installation.settler()) for _ in range(2)))
    assert sum(settled) == 5
    assert len(installation.first.asked) == 5
    assert await installation.states() == ["done"] * 5
    assert (await verified(installation.log, key=None)).intact


async def test_a_process_settles_what_it_has_closed_as_soon_as_it_is_committed(log: Database, tmp_path: Path) -> None:
    async with installed(log, tmp_path, SystemClock()) as installation:
        worker = DueWorker(log, [installation.settler().handler], installation.clock)
        running = asyncio.create_task(worker.serve_forever())
        await installation.lose(installation.first, 1)
        async with asyncio.timeout(30):
            while await installation.states() != ["done"]:  # noqa: ASYNC110 (the row has no event)
                await asyncio.sleep(0.01)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert len(installation.first.asked) == 1


async def test_a_server_that_this_process_has_never_reached_is_connected_for_the_calls_of_another(
    installation: Installation, clock: ManualClock
) -> None:
    await installation.lose(installation.first, 2)
    await installation.first.stop()
    other = McpServerGroup([installation.first.config], granted=["first.add_task"], clock=clock)
    assert not await other.start()
    settler = OutcomeSettler(other, installation.log, clock=clock)
    assert await serve(settler) == 0
    await installation.first.start()
    settled = 0
    for _ in range(3):
        # The connection is opened in the background.
        await other.executors["first"].ready()
        clock.advance(seconds=settling.MAX_BACK_OFF_SECONDS)
        settled += await serve(settler)
    assert settled == 2
    await other.aclose()


async def test_a_call_that_is_not_settled_within_a_day_is_stuck_and_named(
    installation: Installation, clock: ManualClock
) -> None:
    [key] = await installation.lose(installation.first, 1)
    installation.first.unanswered = {key}
    assert await serve(installation.settler()) == 0
    clock.advance(days=1, seconds=1)
    assert await serve(installation.settler()) == 0
    [row] = await installation.log.read(lambda connection: connection.execute(select(due)).all())
    assert (row.kind, row.key, row.lane, row.due_at) == ("settle", key, "first", None)
    assert row.error == "its outcome was not learned within a day"


async def test_a_process_without_the_server_of_a_call_leaves_it_to_another(
    installation: Installation, clock: ManualClock
) -> None:
    await installation.lose(installation.first, 1)
    other = McpServerGroup([installation.second.config], granted=["second.add_task"], clock=clock)
    assert await other.start()
    assert await serve(OutcomeSettler(other, installation.log, clock=clock)) == 0
    assert await serve(installation.settler()) == 1
    await other.aclose()

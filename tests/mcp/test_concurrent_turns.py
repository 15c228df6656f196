"""Fifty turns at a time over three servers, one of which is killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.models.record import DecisionRecord, RecordStatus
from graph_agent.turn.engine import LLMAgentEngine
from tests.mcp.conftest import Servers, notes_server
from tests.mcp.test_third_party import granted, settings, text
from tests.permission import permitted
from tests.scripted_turns import grouped

TURNS = 50
SERVERS = ("one", "two", "three")
KILLED = "two"
LOST = {"UNKNOWN_ERROR", "TOOL_UNAVAILABLE", "TOOL_EXECUTION_ERROR"}
"""The codes of a call that was on its way, not sent, or refused when its server was killed."""


def writes_on_each_server(messages: list[LLMMessage], _: list[ToolDeclaration]) -> LLMResponse:
    """Request a note on each server, named as the user asks; then answer."""
    if messages[-1].role == "function":
        return LLMResponse(content="Done.", finish_reason="stop")
    note = {"name": messages[-1].content, "text": "tea"}
    calls = [FunctionCall(name=f"{server}.write_note", arguments=note) for server in SERVERS]
    return LLMResponse(function_calls=calls, finish_reason="tool_calls")


async def run_turn(engine: LLMAgentEngine, number: int) -> DecisionRecord:
    context = DecisionContext(user_id=f"user {number}", message=f"note-{number}", conversation_id=f"c{number}")
    return (await engine.run(context)).record


async def test_fifty_turns_over_three_servers_end_when_one_server_is_killed(
    tmp_path: Path, servers: Servers, constitution: Path
) -> None:
    folders = {name: tmp_path / name for name in SERVERS}
    for folder in folders.values():
        folder.mkdir()
    file = servers(**{name: notes_server(folder, prefix=True) for name, folder in folders.items()})
    lines = [f"- {name}.write_note: Write (without confirmation)\n- {name}.pid: Id (reads)\n" for name in SERVERS]
    granted(constitution, "## Available Tools\n" + "".join(lines))
    # The limits are generous, because a busy machine may take long for fifty turns.
    config = AgentEngineConfig(timeout_seconds=600, iteration_timeout=300)
    model = ScriptedAdapter([writes_on_each_server] * 10 * TURNS)
    async with open_runtime(settings(tmp_path, file, constitution, "embedded"), config=config) as runtime:
        engine = LLMAgentEngine(model, runtime.tools, text(constitution), **grouped(config=config, audit=runtime.audit))
        before = await runtime.tools.execute(permitted(f"{KILLED}.pid", {}, "ann"))
        assert isinstance(before.data, dict)
        turns = [asyncio.create_task(run_turn(engine, number)) for number in range(TURNS)]
        while len(list(folders[KILLED].iterdir())) < TURNS // 5:
            assert (await runtime.tools.execute(permitted("one.pid", {}, "ann"))).success
        os.kill(before.data["pid"], signal.SIGKILL)
        records = await asyncio.gather(*turns)

        assert [record.status for record in records] == [RecordStatus.COMPLETED] * TURNS
        for number, record in enumerate(records):
            results = {call.tool_name.partition(".")[0]: call for call in record.invocations}
            assert results.keys() == set(SERVERS)
            assert all(results[name].success for name in SERVERS if name != KILLED)
            written = (folders[KILLED] / f"note-{number}").exists()
            killed = results[KILLED]
            assert written if killed.success else killed.error_code in LOST
            # Only an unknown outcome may hide a change: what is reported as not done was not done.
            assert not written or killed.success or killed.error_code == "UNKNOWN_ERROR"
        # The killed server comes back for later turns.
        while not (after := await runtime.tools.execute(permitted(f"{KILLED}.pid", {}, "ann"))).success:
            assert (await runtime.tools.execute(permitted("one.pid", {}, "ann"))).success
        assert after.data != before.data
        assert {record.success for record in (await run_turn(engine, TURNS)).invocations} == {True}
        await engine.aclose()

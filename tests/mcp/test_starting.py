"""A server that takes long to start: whoever serves says so, and goes on when it is there."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.cli.running import print_stderr
from graph_agent.cli.runtime import ProgressLines
from graph_agent.errors import ConfigurationError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import LLMResponse
from graph_agent.tools.progress import ToolProgress, progress_to, report_start, starts_to
from graph_agent.tools.server_file import read_server_file
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.tools.session import start_seconds
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.hooks import HookedToolCall, TurnHook
from graph_agent.turn.setup import EngineOptions
from tests import fork_server
from tests.mcp.conftest import Servers
from tests.mcp.test_third_party import settings

SCRIPT = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
from mcp.server.mcpserver import MCPServer
server = MCPServer("files", log_level="ERROR")
@server.tool()
async def read(name: str) -> str:
    return f"content of {name}"
server.run("stdio")
"""


@pytest.fixture
def gate(tmp_path: Path, servers: Servers) -> Path:
    """A path; the server of the file of servers starts when it exists."""
    (tmp_path / "server.py").write_text(SCRIPT, encoding="utf-8")
    gate = tmp_path / "gate"
    servers(files={"command": fork_server.python(), "args": [str(tmp_path / "server.py"), str(gate)]})
    return gate


async def test_a_server_that_starts_is_named_until_it_has_started(
    tmp_path: Path, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is reported every three seconds.
    monkeypatch.setattr("graph_agent.tools.server_group.REPORT_EVERY_SECONDS", 0.05)
    constitution = tmp_path / "constitution.md"
    constitution.write_text("## Available Tools\n- read: Read a file (reads)\n", encoding="utf-8")
    chosen = settings(tmp_path, tmp_path / "servers.json", constitution, "embedded")
    reported = asyncio.Event()
    async with AsyncExitStack() as stack:
        stack.enter_context(starts_to(lambda _: reported.set()))
        runtime = await stack.enter_async_context(open_runtime(chosen, start_seconds=0))
        transport = httpx.ASGITransport(create_app(runtime))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await reported.wait()
            line = (await client.get("/api/about")).json()["starting"]
            assert line.startswith("starting files …, ")
            await asyncio.to_thread(gate.touch)
            assert runtime.started is not None
            await runtime.started
            about = (await client.get("/api/about")).json()
    assert (about["starting"], about["examples"][0]) == (None, "Read a file")


async def test_one_that_does_not_fit_the_constitution_is_an_error_also_if_it_started_late(tmp_path: Path, gate: Path) -> None:
    constitution = tmp_path / "constitution.md"
    constitution.write_text("## Available Tools\n- write: Write a file (requires confirmation)\n", encoding="utf-8")
    chosen = settings(tmp_path, tmp_path / "servers.json", constitution, "embedded")
    async with open_runtime(chosen, start_seconds=0) as runtime:
        await asyncio.to_thread(gate.touch)
        assert runtime.started is not None
        with pytest.raises(ConfigurationError, match="no server serves: write"):
            await runtime.started


async def test_an_engine_without_a_runtime_waits_for_a_server_as_long_as_a_turn_permits(
    tmp_path: Path, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is reported every three seconds.
    monkeypatch.setattr("graph_agent.tools.server_group.REPORT_EVERY_SECONDS", 0.05)
    reported = asyncio.Event()
    shown: list[str | None] = []

    class Shown(TurnHook):
        def tool_progress(self, call: HookedToolCall | None, progress: ToolProgress) -> None:
            assert call is None
            shown.append(progress.message)

    (config,) = read_server_file(tmp_path / "servers.json", {})
    tools = McpServerGroup([config])
    constitution = "## Available Tools\n- read: Read a file (reads)\n"
    # The limit of a call is shorter than the start.
    options = EngineOptions(AgentEngineConfig(timeout_seconds=240), call_seconds=0.01, hooks=[Shown])
    engine = LLMAgentEngine(
        ScriptedAdapter([LLMResponse(content="Hello.", finish_reason="stop")]), tools, constitution, options=options
    )
    try:
        with starts_to(lambda _: reported.set()):
            turn = asyncio.create_task(engine.run(DecisionContext(user_id="ann", message="Hi", conversation_id="c1")))
            await reported.wait()
            await asyncio.to_thread(gate.touch)
            finished = await turn
        snapshot = await engine.prepare()
    finally:
        await tools.aclose()
    assert (finished.decision.reply, list(snapshot.policy.rules)) == ("Hello.", ["read"])
    assert finished.record.header.digests == snapshot.digests
    assert set(shown) == {"starting files …"}


def test_a_command_prints_the_start_of_a_server_once(capsys: pytest.CaptureFixture[str]) -> None:
    with starts_to(print_stderr), progress_to(partial(ProgressLines().tool_progress, None)):
        report_start(["files"], 3.0)
    assert capsys.readouterr().err == "starting files …, 3 s\n"


def test_a_server_has_a_minute_to_start_unless_a_time_is_chosen() -> None:
    assert [start_seconds(10.0, None), start_seconds(3.0, None), start_seconds(3.0, 90.0)] == [60.0, 3.0, 90.0]

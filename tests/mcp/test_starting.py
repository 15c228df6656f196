"""A server that takes long to start: whoever serves says so, and goes on when it is there."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.errors import ConfigurationError
from graph_agent.tools.progress import starts_to
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

"""The official servers from npm: filesystem, memory, sequential thinking, and everything over both transports."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graph_agent.errors import ToolErrorCode
from tests.foreign.conftest import Agent, Call, call

pytestmark = pytest.mark.foreign

Build = Callable[[dict[str, Any], str], Agent]


def command(installed: Path, name: str) -> str:
    return str(installed / "npm" / "node_modules" / ".bin" / f"mcp-server-{name}")


def test_filesystem(agent: Build, installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("tea", encoding="utf-8")
    files = agent(
        {"command": command(installed, "filesystem"), "args": [str(folder)]},
        "- read_text_file: Read a file (reads)\n- write_file: Write a file (without confirmation)\n"
        "- edit_file: Edit a file (requires confirmation)",
    )
    edit = call("edit_file", path=str(folder / "a.txt"), edits=[{"oldText": "tea", "newText": "coffee"}], dryRun=False)

    def contents() -> dict[str, str]:
        return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}

    assert "tea" in files.reads(call("read_text_file", path=str(folder / "a.txt")))
    files.changes(call("write_file", path=str(folder / "b.txt"), content="milk"))
    files.refuses(
        call("move_file", source=str(folder / "b.txt"), destination=str(folder / "c.txt")), ToolErrorCode.TOOL_NOT_FOUND
    )
    files.refuses(call("write_file", path=7, content="x"), ToolErrorCode.VALIDATION_ERROR)
    files.declines(edit)
    assert contents() == {"a.txt": "tea", "b.txt": "milk"}
    files.confirms(edit)
    outside = tmp_path / "outside.txt"
    files.fails_after(
        call("write_file", path=str(folder / "d.txt"), content="1"), call("write_file", path=str(outside), content="2")
    )
    assert contents() == {"a.txt": "coffee", "b.txt": "milk", "d.txt": "1"}
    assert not outside.exists()
    files.replays()


def test_memory(agent: Build, installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    memory = agent(
        {"command": command(installed, "memory"), "env": {"MEMORY_FILE_PATH": str(file)}},
        "- read_graph: Read everything (reads)\n- create_entities: Remember things (without confirmation)\n"
        "- add_observations: Remember more (without confirmation)\n"
        "- delete_entities: Forget things (requires confirmation)",
    )

    def things() -> dict[str, list[str]]:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return {line["name"]: line["observations"] for line in lines if line["type"] == "entity"}

    def remember(name: str, *observations: str) -> dict[str, Any]:
        return {"name": name, "entityType": "person", "observations": list(observations)}

    memory.changes(call("create_entities", entities=[remember("Ann", "likes tea"), remember("Bob")]))
    assert "likes tea" in memory.reads(call("read_graph"))
    memory.refuses(call("delete_observations", deletions=[]), ToolErrorCode.TOOL_NOT_FOUND)
    memory.refuses(call("create_entities", entities="Eve"), ToolErrorCode.VALIDATION_ERROR)
    memory.declines(call("delete_entities", entityNames=["Bob"]))
    assert things() == {"Ann": ["likes tea"], "Bob": []}
    memory.confirms(call("delete_entities", entityNames=["Bob"]))
    memory.fails_after(
        call("add_observations", observations=[{"entityName": "Ann", "contents": ["has a cat"]}]),
        call("add_observations", observations=[{"entityName": "Eve", "contents": ["does not exist"]}]),
    )
    assert things() == {"Ann": ["likes tea", "has a cat"]}
    memory.replays()


def test_sequential_thinking(agent: Build, installed: Path) -> None:
    server = {"command": command(installed, "sequential-thinking")}
    thinking = agent(server, "- sequentialthinking: Think (reads)")

    def thought(**more: Any) -> Call:
        return call("sequentialthinking", thought="tea", nextThoughtNeeded=False, totalThoughts=1, **more)

    assert "thoughtHistoryLength" in thinking.reads(thought(thoughtNumber=1))
    thinking.refuses(call("think"), ToolErrorCode.TOOL_NOT_FOUND)
    thinking.refuses(thought(thoughtNumber="one"), ToolErrorCode.VALIDATION_ERROR)
    asking = agent(server, "- sequentialthinking: Think (requires confirmation)")
    asking.declines(thought(thoughtNumber=1))
    assert "thoughtHistoryLength" in asking.confirms(thought(thoughtNumber=1))
    asking.replays()


@pytest.fixture
def everything_over_http(installed: Path) -> Iterator[str]:
    """The URL of the everything server, which answers there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    started = [command(installed, "everything"), "streamableHttp"]
    with subprocess.Popen(started, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        assert server.stdout is not None
        try:
            next(line for line in server.stdout if "listening" in line)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.terminate()


def test_everything_over_stdio(agent: Build, installed: Path) -> None:
    use_everything(agent, {"command": command(installed, "everything")})


def test_everything_over_http(agent: Build, everything_over_http: str) -> None:
    use_everything(agent, {"url": everything_over_http})


def use_everything(agent: Build, server: dict[str, Any]) -> None:
    everything = agent(
        server,
        "- echo: Echo (reads)\n- get-structured-content: Weather (reads)\n- get-tiny-image: Picture (reads)\n"
        "- get-sum: Add (without confirmation)\n- get-resource-reference: Refer (without confirmation)\n"
        "- trigger-long-running-operation: Wait (requires confirmation)",
    )
    wait = call("trigger-long-running-operation", duration=0.2, steps=2)

    assert "hello" in everything.reads(call("echo", message="hello"))
    assert "temperature" in everything.reads(call("get-structured-content", location="Chicago"))
    everything.reads(call("get-tiny-image"))
    assert "5" in everything.changes(call("get-sum", a=2, b=3))
    everything.refuses(call("get-env"), ToolErrorCode.TOOL_NOT_FOUND)
    everything.refuses(call("get-sum", a="two", b=3), ToolErrorCode.VALIDATION_ERROR)
    everything.declines(wait)
    everything.confirms(wait)
    everything.fails_after(call("get-sum", a=2, b=2), call("get-resource-reference", resourceType="Text", resourceId=-1))
    everything.replays()

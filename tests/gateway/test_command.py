"""`graph-agent gateway` as a process before a third-party MCP server, with real MCP clients."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ToolListChangedNotification

from tests import fork_server
from tests.cli.conftest import Cli, home  # noqa: F401 (a fixture that every test here uses)
from tests.gateway.test_gateway import NO, YES, User, value
from tests.mcp.conftest import Servers, notes_server
from tests.serving import address_of, launch_header

CONSTITUTION = """You keep notes.

## Available Tools
- read_note: Read a note (reads)
- write_note: Write a note (requires confirmation)
- redefine: Redefine a tool (without confirmation)
- hang: Hang (without confirmation)
"""


@pytest.fixture
def constitution(tmp_path: Path) -> Path:
    file = tmp_path / "constitution.md"
    file.write_text(CONSTITUTION, encoding="utf-8")
    return file


def command(servers: Path, constitution: Path, *more: str) -> list[str]:
    return [fork_server.graph_agent(), "gateway", "--mcp", str(servers), "--constitution", str(constitution), *more]


def content(folder: Path) -> dict[str, str]:
    """The notes, by their names."""
    return {note.name: note.read_text(encoding="utf-8") for note in folder.iterdir()}


def decisions(cli: Cli) -> list[tuple[str, str]]:
    """The message and the status of every decision in the log, oldest first. The log must verify, and what is closed replay."""
    listed = [json.loads(line) for line in cli("log", "list", "--json").out.splitlines()]
    verified, replayed = cli("log", "verify"), cli("replay", "--all")
    assert (verified.code, replayed.code) == (0, 0), verified.out + replayed.out + replayed.err
    return [(row["message"], row["status"]) for row in reversed(listed)]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_client_over_stdio_lists_reads_and_changes_and_a_changed_definition_is_refused(
    cli: Cli,
    servers: Servers,
    notes: Path,
    constitution: Path,
    mode: Any,
) -> None:
    async def story() -> None:
        user, changed = User(NO, YES), asyncio.Event()

        async def on_message(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                changed.set()

        program, *arguments = command(servers(), constitution)
        process = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
        async with Client(process, mode=mode, elicitation_callback=user, message_handler=on_message) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [
                "read_note",
                "write_note",
                "redefine",
                "hang",
                "question_status",
            ]
            note = {"name": "a", "text": "buy milk"}
            declined = await client.call_tool("write_note", note)
            assert (declined.is_error, content(notes)) == (True, {})
            written = await client.call_tool("write_note", note)
            assert (written.is_error, content(notes)) == (False, {"a": "buy milk"})
            assert user.asked[0] == "Write a note\n  Name: 'a'\n  Text: 'buy milk'\nShould I go ahead? Please answer yes or no."
            read = await client.call_tool("read_note", {"name": "a"})
            assert "buy milk" in str(value(read)["data"])

            # It does not fit into a question, and the program that called it cannot confirm it.
            long = await client.call_tool("write_note", {"name": "b", "text": "x" * 5000})
            assert value(long)["state"] == "waiting_for_the_user"
            assert len(user.asked) == 2

            await client.call_tool("redefine", {})
            if mode == "legacy":
                await asyncio.wait_for(changed.wait(), 60)
            refused = await client.call_tool("write_note", {"name": "b", "text": "b"})
            assert value(refused)["error"].startswith("unavailable: ")
            names = [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]
            assert names == ["read_note", "redefine", "hang"]

    asyncio.run(story())
    assert content(notes) == {"a": "buy milk"}
    assert constitution.with_suffix(".lock").exists()
    assert len(decisions(cli)) == 8


@contextmanager
def gateway_over_http(arguments: list[str], log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with log.open("wb") as stderr, subprocess.Popen([*arguments, "--http", "127.0.0.1:0"], stderr=stderr) as process:
        try:
            yield process, address_of(process, log, "serving the gateway of local on")
        finally:
            process.terminate()


def test_a_gateway_that_is_killed_in_mid_call_is_started_again_and_its_call_is_in_the_log(
    cli: Cli,
    home: Path,  # noqa: F811 (a fixture)
    servers: Servers,
    notes: Path,
    constitution: Path,
    tmp_path: Path,
) -> None:
    arguments = command(servers(), constitution)

    @asynccontextmanager
    async def connected(url: str) -> AsyncGenerator[Client]:
        async with (
            httpx2.AsyncClient(headers=launch_header(home), timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            yield client

    async def kill_in_mid_call(process: subprocess.Popen[bytes], url: str) -> None:
        async with connected(url) as client:
            hanging = asyncio.create_task(client.call_tool("hang", {"name": "begun"}))
            while not content(notes):  # noqa: ASYNC110 (another process writes it)
                await asyncio.sleep(0.02)
            process.kill()
            await hanging

    async def read(url: str) -> str:
        async with connected(url) as client:
            return str(value(await client.call_tool("read_note", {"name": "begun"})))

    with (
        gateway_over_http(arguments, tmp_path / "first.log") as (process, url),
        pytest.raises(Exception),  # noqa: B017,PT011 (whatever a client makes of a server that has died)
    ):
        asyncio.run(kill_in_mid_call(process, url))
    with gateway_over_http(arguments, tmp_path / "second.log") as (_, url):
        assert "begun" in asyncio.run(read(url))
    (hanging, status), reading = decisions(cli)
    assert (hanging, reading) == ('call "hang" {"name":"begun"}', ('call "read_note" {"name":"begun"}', "completed"))
    # It is closed when its lease has expired, which it has before the second start on a slow machine.
    assert status in ("PENDING", "interrupted")


def test_a_server_that_does_not_answer_cannot_be_pinned(
    cli: Cli,
    servers: Servers,
    constitution: Path,
    notes: Path,
) -> None:
    file = servers(notes=notes_server(notes, "crash"))
    ended = cli("gateway", "--mcp", str(file), "--constitution", str(constitution))
    assert ended.code == 1
    assert "these MCP servers do not answer: 'notes'" in ended.err
    assert cli("gateway", "--mcp", str(file)).code != 0

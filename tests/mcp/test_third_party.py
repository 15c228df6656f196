"""The command line and the API with third-party MCP servers."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext
from graph_agent.models.record import DecisionRecord
from graph_agent.settings import Settings
from tests import fork_server
from tests.cli.conftest import Cli
from tests.mcp.conftest import SAID, Servers, call, notes_server
from tests.permission import permitted

Script = Callable[..., str]


def settings(tmp_path: Path, mcp: Path, constitution: Path, model: str) -> Settings:
    return Settings(
        GRAPH_AGENT_HOME=tmp_path,
        GRAPH_AGENT_MCP=mcp,
        GRAPH_AGENT_CONSTITUTION=constitution,
        GRAPH_AGENT_MODEL=model,
        DATABASE_URL="sqlite://",
        GRAPH_AGENT_SECRET=SecretStr("x" * 32),
        GRAPH_AGENT_TIMEOUT_SECONDS=600,
    )


async def decide(runtime: Runtime) -> DecisionRecord:
    context = DecisionContext(user_id="ann", message="go", conversation_id="c")
    return (await runtime.engine.run(context)).record


def text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def granted(constitution: Path, lines: str) -> None:
    constitution.write_text(lines, encoding="utf-8")


def executable(file: Path, command: str) -> Path:
    file.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def test_every_command_takes_the_files(cli: Cli, script: Script, servers: Servers, constitution: Path, notes: Path) -> None:
    files = ("--mcp", str(servers()), "--constitution", str(constitution))

    listed = cli("tools", "list", *files)
    assert [line.split()[:2] for line in listed.out.splitlines()] == [
        ["read_note", "reads"],
        ["write_note", "changes"],
        ["write_two", "changes"],
    ]
    assert cli("tools", "call", "write_note", '{"name": "a", "text": "tea"}', *files).json()["success"]
    asked = cli("ask", "note: milk", *files, "--model", script(call("write_note", name="b", text="milk"), SAID))
    assert "✓ Write a note (name 'b', text 'milk')" in asked.out
    stepped = cli("step", "read it", *files, "--model", script(call("read_note", name="b"), SAID))
    assert "APPEND_RESULTS" in stepped.out
    assert {file.name: file.read_text() for file in notes.iterdir()} == {"a": "tea", "b": "milk"}
    assert cli("replay", "--all", "--mcp", files[1]).out == "3 of 3 identical\n"
    # The embedded model serves the shipped tools only.
    assert "model         broken" in cli("doctor", *files).out


def test_the_progress_of_a_tool_is_printed(cli: Cli, script: Script, servers: Servers, constitution: Path) -> None:
    granted(constitution, "## Available Tools\n- count_notes: Count (reads)\n")
    files = ("--mcp", str(servers()), "--constitution", str(constitution))
    asked = cli("ask", "how many?", *files, "--model", script(call("count_notes"), SAID))
    assert "progress: 1 of 2, counting‹U+001B›[31m\n" in asked.err


async def test_readyz_names_the_server_that_is_down(tmp_path: Path, servers: Servers, constitution: Path, notes: Path) -> None:
    file = servers(notes=notes_server(notes), base={"command": "/no/such/command"})
    async with open_runtime(settings(tmp_path, file, constitution, "embedded")) as runtime:
        transport = httpx.ASGITransport(create_app(runtime))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "Not ready: MCP server 'base'.")


def test_a_server_that_starts_slowly_is_named_with_what_helps(cli: Cli, servers: Servers) -> None:
    file = servers(slow={"command": "sleep", "args": ["600"], "start_timeout": 0.2})
    ended = cli("constitution", "new", "--mcp", str(file))
    assert (ended.code, "'slow' (it does not answer in time) (`start_timeout` in the file" in ended.err) == (1, True), ended.err


def test_a_start_that_takes_long_is_waited_for_and_reported(
    cli: Cli, servers: Servers, constitution: Path, notes: Path, tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is reported every five seconds.
    monkeypatch.setattr("graph_agent.tools.server_group.REPORT_EVERY_SECONDS", 0.2)
    entry = notes_server(notes)
    # The command starts the server after a line of progress was printed, however slow the machine is.
    held, launcher = tmp_path / "held", executable(tmp_path / "slow.sh", f'sleep 2; exec {fork_server.python()} "$@"')
    file = servers(notes={**entry, "command": str(launcher), "timeout": 30, "start_timeout": 120}, quick=notes_server(held))
    held.mkdir()
    files = ("--mcp", str(file), "--constitution", str(constitution))
    granted(constitution, "## Available Tools\n- notes.write_note: Write a note (without confirmation)\n")
    ended = cli(
        "ask", "note", *files, "--model", script(call("notes.write_note", name="a", text="1"), SAID), "--timeout", "600"
    )
    assert (ended.code, text(notes / "a")) == (0, "1"), ended.err
    assert re.search(r"^starting (notes|notes, quick|quick, notes) …, \d+ s$", ended.err, re.MULTILINE)


def test_the_variables_name_the_files_too(
    cli: Cli,
    servers: Servers,
    constitution: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRAPH_AGENT_MCP", str(servers()))
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", str(constitution))
    assert [json.loads(line)["name"] for line in cli("tools", "list", "--json").out.splitlines()] == [
        "read_note",
        "write_note",
        "write_two",
    ]


def test_doctor_names_the_server_that_is_down_and_hides_its_secrets(
    cli: Cli,
    servers: Servers,
    constitution: Path,
    notes: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2")
    broken = notes_server(notes, "crash", env={"TOKEN": "${PASSWORD}"})
    file = servers(notes=notes_server(notes), base=broken)
    ended = cli("doctor", "--mcp", str(file), "--constitution", str(constitution))
    assert ended.code == 1
    assert "'base' (" in ended.out
    assert "the last line of its stderr: no such database, password ***" in " ".join(ended.out.split())
    assert "'notes'" not in ended.out
    assert "hunter2" not in ended.out + ended.err


def test_commands_report_the_server_that_is_down_and_continue_with_the_others(
    cli: Cli, servers: Servers, constitution: Path, notes: Path
) -> None:
    file = servers(notes=notes_server(notes), base=notes_server(notes, "crash"))
    granted(
        constitution,
        "## Available Tools\n- notes.read_note: Read (reads)\n- notes.write_note: Write (without confirmation)\n"
        "- base.write_note: Write (without confirmation)\n",
    )
    files = ("--mcp", str(file), "--constitution", str(constitution))

    listed = cli("tools", "list", *files)
    assert [line.split()[:2] for line in listed.out.splitlines()] == [
        ["notes.read_note", "reads"],
        ["notes.write_note", "changes"],
        ["base.write_note", "unavailable"],
    ]
    assert (listed.code, "these MCP servers do not answer: 'base' (" in listed.err) == (0, True)

    assert cli("tools", "call", "notes.write_note", '{"name": "a", "text": "tea"}', *files).json()["success"]
    down = cli("tools", "call", "base.write_note", '{"name": "a", "text": "tea"}', *files)
    assert (down.code, down.out, "base.write_note is unavailable: these MCP servers" in down.err) == (1, "", True)

    explained = cli("constitution", "check", *files)
    assert [line.split()[:3] for line in explained.out.splitlines()[:3]] == [
        ["line", "2:", "notes.read_note"],
        ["line", "3:", "notes.write_note"],
        ["line", "4:", "base.write_note"],
    ]
    assert "base.write_note is unavailable" in explained.out
    assert (explained.code, "'base' (" in explained.err) == (1, True)

    checked = cli("doctor", *files)
    shown = " ".join(checked.out.split())
    assert "notes.read_note, notes.write_note; write without confirmation: notes.write_note" in shown
    assert "unavailable: base.write_note" in shown
    assert [line.split()[0] for line in checked.out.splitlines()][-1] == "endpoint"


SECRETS = [
    "s3cret-arg",
    "s3cret-option",
    "s3cret-short",
    "s3cret-env",
    "s3cret-header",
    "s3cret-user",
    "s3cret-path",
    "s3cret-q",
]


def test_no_command_shows_a_literal_secret_of_the_file(cli: Cli, servers: Servers, constitution: Path, tmp_path: Path) -> None:
    talks = executable(tmp_path / "talks.sh", 'echo "failed: $* $KEY" >&2; exit 1')
    url = "http://me:s3cret-user@127.0.0.1:9/s3cret-path/mcp?key=s3cret-q"
    file = servers(
        a={"command": str(talks), "args": ["--token", "s3cret-arg", "--key=s3cret-option", "-ps3cret-short"], "timeout": 60},
        b={"command": str(talks), "env": {"KEY": "s3cret-env"}, "timeout": 60},
        c={"url": url, "headers": {"Authorization": "Bearer s3cret-header"}, "timeout": 60},
    )
    files = ("--mcp", str(file), "--constitution", str(constitution))
    for command in (["doctor"], ["tools", "list"], ["tools", "pin"], ["constitution", "check"], ["constitution", "new"]):
        given = files[:2] if command == ["constitution", "new"] else files
        ended = cli("--traceback", *command, *given)
        text = ended.out + ended.err
        assert all(f"'{name}' (" in text for name in "abc"), text
        assert "failed: --token ***" in " ".join(text.split())
        assert [secret for secret in SECRETS if secret in text] == []


async def test_a_server_that_was_down_at_the_start_is_unavailable_and_returns_without_a_restart(
    tmp_path: Path, servers: Servers, constitution: Path, notes: Path, script: Script
) -> None:
    launcher = executable(tmp_path / "launcher.sh", "exit 1")
    file = servers(notes={**notes_server(notes), "command": str(launcher)})
    steps = [call("write_note", name="a", text="1"), SAID, call("write_note", name="a", text="1"), SAID]
    async with open_runtime(settings(tmp_path, file, constitution, script(*steps))) as runtime:
        record = await decide(runtime)
        invocation = record.invocations[0]
        assert (invocation.disposition, invocation.error_code) == ("refused", "TOOL_UNAVAILABLE")
        assert (invocation.error_message or "").startswith("unavailable:")
        snapshot = await runtime.engine.prepare()
        assert snapshot.policy.declarations[0].description.startswith("Unavailable:")

        executable(launcher, f'exec {fork_server.python()} "$@"')
        while not await runtime.tools.start():
            await runtime.tools.executors["notes"].ready()
        record = await decide(runtime)
        assert (record.invocations[0].disposition, record.invocations[0].success) == ("executed", True)
    assert text(notes / "a") == "1"


async def test_the_start_waits_for_a_server_as_long_as_its_entry_says(
    tmp_path: Path, servers: Servers, constitution: Path, notes: Path
) -> None:
    """The engine's own limit is shorter here than the start of a process."""
    config = AgentEngineConfig(timeout_seconds=600, iteration_timeout=0.001)
    file = servers(notes=notes_server(notes))
    async with open_runtime(settings(tmp_path, file, constitution, "embedded"), config=config) as runtime:
        assert "write_note" in (await runtime.engine.prepare()).policy.rules


async def test_one_server_is_killed_and_the_other_continues(
    tmp_path: Path, servers: Servers, constitution: Path, notes: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    file = servers(notes=notes_server(notes), other=notes_server(other, prefix=True))
    granted(constitution, "## Available Tools\n- notes.pid: Id (reads)\n- other.write_note: Write (without confirmation)\n")
    async with open_runtime(settings(tmp_path, file, constitution, "embedded")) as runtime:
        tools = runtime.tools
        killed = await tools.execute(permitted("notes.pid", {}, "ann"))
        assert isinstance(killed.data, dict)
        os.kill(killed.data["pid"], signal.SIGKILL)
        assert (await tools.execute(permitted("other.write_note", {"name": "a", "text": "1"}, "ann"))).success
        again = await tools.execute(permitted("notes.pid", {}, "ann"))
        while not again.success:
            again = await tools.execute(permitted("notes.pid", {}, "ann"))
        assert again.data != killed.data
    assert text(other / "a") == "1"

"""Each call that a command sends to a configured server is in the record, and most commands send none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graph_agent.cli.main import COMMANDS
from graph_agent.cli.running import PROGRAM
from tests import fork_server
from tests.cli.conftest import Cli
from tests.mcp.conftest import Servers

SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("board", log_level="ERROR")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def list_tasks(status: str = "all") -> dict:
    """List the tasks."""
    with open(sys.argv[1], "a") as calls:
        calls.write("list_tasks\\n")
    return {"tasks": [], "count": 0}


@server.tool()
async def add_task(description: str) -> dict:
    """Add a task."""
    with open(sys.argv[1], "a") as calls:
        calls.write("add_task\\n")
    return {"added": description}


server.run("stdio")
'''
CONSTITUTION = """# Board

You keep a board.

## Available Tools
- list_tasks: List the tasks (reads)
- add_task: Add a task (without confirmation)
"""
POLICY = '@id("all") permit (principal, action, resource);'
MORE: dict[str, list[str]] = {
    "ask": ["add a task to call mom"],
    "step": ["show my tasks"],
    "budget": [],
    "chat": [],
    "demo": [],
    "diagram": [],
    "doctor": [],
    "validate": ["--only", "create-*"],
    "replay": ["--all", "--constitution", "constitution.md"],
    "log list": [],
    "log show": ["last"],
    "log export": [],
    "log metrics": [],
    "log prune": [],
    "log verify": [],
    "log erase": ["--user", "eve", "--reason", "asked", "--yes"],
    "db migrate": [],
    "constitution show": [],
    "constitution new": [],
    "constitution check": [],
    "policy new": [],
    "policy check": ["policy.cedar"],
    "policy explain": ["policy.cedar"],
    "policy schema": [],
    "policy suggest": [],
    "policy trial": [],
    "stops": [],
    "rules list": [],
    "rules show": [],
    "due list": [],
    "mandates list": [],
    "tools list": [],
    "tools call": ["list_tasks"],
    "tools pin": [],
    "tools diff": [],
    "questions list": [],
}
"""The arguments of each command that is run, in this order: what `ask` has recorded is there for the later ones."""
NOT_RUN = {
    *("serve", "gateway", "witness", "tools serve", "tools sign-in"),  # they run until they are stopped, or open a browser
    *("log sql", "log consistency", "log fork", "log rotate", "witness add"),  # they need files or a state of their own
    "undo",  # it needs a decision that can be undone
    *("stop", "resume", "due retry"),  # a stop keeps the others from running; the others need one, or work that is stuck
    *("rules activate", "rules rollback", "rules follow"),  # what is activated binds the commands after it
    *("db copy", "policy diff", "policy prove"),
    "mandates from",  # it needs a change of a tool with (in plans)
    *("mandates show", "mandates revoke"),  # they need a plan that somebody has agreed to
    *(f"questions {name}" for name in ("show", "answer", "cancel")),  # they need a question that waits
}
SENDING = {"ask", "step", "tools call"}


@pytest.fixture
def board(tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A function that returns the calls that the configured server has got."""
    calls, script = tmp_path / "calls", tmp_path / "board.py"
    script.write_text(SERVER, encoding="utf-8")
    file = servers(board={"command": fork_server.python(), "args": [str(script), str(calls)], "timeout": 60})
    (tmp_path / "constitution.md").write_text(CONSTITUTION, encoding="utf-8")
    (tmp_path / "policy.cedar").write_text(POLICY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPH_AGENT_MCP", str(file))
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", "constitution.md")
    return lambda: calls.read_text(encoding="utf-8").split() if calls.exists() else []


def recorded(cli: Cli) -> list[str]:
    """Return the tools of all calls that the record says were sent, oldest first."""
    lines = [json.loads(line) for line in cli("log", "export").out.splitlines()]
    records = [line["record"] for line in lines if line["type"] == "decision"]
    return [one["tool_name"] for record in records for one in record["invocations"] if one["disposition"] == "executed"]


def test_every_command_records_the_calls_that_it_sends(cli: Cli, board: Callable[[], list[str]]) -> None:
    names = {
        command if group == PROGRAM else f"{group} {command}" for group, commands in COMMANDS.items() for command in commands
    }
    assert names <= MORE.keys() | NOT_RUN, "a new command belongs into one of the two"
    sending = set()
    for name, more in MORE.items():
        before = board()
        ended = cli(*name.split(), *more)
        assert "Traceback" not in ended.err, ended.err
        if board() != before:
            sending.add(name)
        assert recorded(cli) == board(), name
    assert sending == SENDING


def test_a_dry_run_and_what_a_model_sees_send_no_change(cli: Cli, board: Callable[[], list[str]]) -> None:
    answer: Any = cli("ask", "--dry-run", "add a task to call mom", "--json").json()
    assert "dry run" in answer["reply"] or answer["decision"]["tool_calls"]
    assert board() == recorded(cli) == []

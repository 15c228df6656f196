"""The commands with tools that are not the shipped ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import fork_server
from tests.cli.conftest import Cli

INVENTORY = '''
def in_stock() -> dict[str, int]:
    """List what is in stock. (reads)"""
    return {"bolt": 10}
'''
ONLY_SHIPPED = (
    "it can only serve the shipped tools, and the constitution grants none of them: choose another model, or embedded:FILE"
)


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run with the tool of a file of functions."""
    monkeypatch.chdir(tmp_path)
    # The server of the functions starts faster as a fork.
    monkeypatch.setattr(sys, "executable", fork_server.python())
    Path("inventory.py").write_text(INVENTORY, encoding="utf-8")
    Path("servers.json").write_text(json.dumps({"mcpServers": {"stock": {"functions": "inventory.py"}}}))
    Path("constitution.md").write_text("## Available Tools\n- stock.in_stock: List (reads)\n", encoding="utf-8")
    monkeypatch.setenv("GRAPH_AGENT_MCP", "servers.json")
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", "constitution.md")


def test_the_embedded_model_says_that_it_cannot_serve_them(cli: Cli) -> None:
    assert f"model: embedded: no GEMINI_API_KEY is set; {ONLY_SHIPPED}\n" in cli("ask", "what is there?").err
    checked = cli("doctor")
    assert checked.code == 1
    (line,) = (line for line in checked.out.splitlines() if line.startswith("model"))
    assert "broken" in line
    assert ONLY_SHIPPED in line


def test_the_shipped_suite_is_not_run_on_them(cli: Cli) -> None:
    ended = cli("validate", "--model", "embedded")
    assert ended.code == 2
    assert "the constitution grants none of them: name a FILE with test cases of yours" in ended.err


def test_the_server_of_the_shipped_tools_is_not_taken_for_the_gateway(cli: Cli) -> None:
    ended = cli("tools", "serve")
    assert ended.code != 0
    assert "`graph-agent gateway` serves those" in ended.err


def test_metrics_and_copies_speak_of_no_tasks(cli: Cli, home: Path, tmp_path: Path) -> None:
    assert cli("tools", "call", "stock.in_stock").code == 0
    assert cli("log", "metrics", "--json").json()["intents"] == {}
    copied = cli("db", "copy", f"sqlite:///{home / 'graph_agent.db'}", f"sqlite:///{tmp_path / 'copy.db'}")
    assert copied.code == 0, copied.err
    assert [line for line in copied.out.splitlines() if line.startswith(("tasks", "operations"))] == []
    assert "tasks" not in cli("log", "erase", "--user", "local", "--reason", "asked", "--dry-run").err

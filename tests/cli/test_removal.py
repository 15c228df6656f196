"""Commands that remove what nothing brings back: they ask first, and say what stays elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graph_agent.bootstrap.secret import record_keys
from graph_agent.db import Database
from graph_agent.settings import read_settings
from tests import fork_server
from tests.audit.builders import make_record, store_records
from tests.cli.conftest import Cli

ROOT = Path(__file__).parents[2]
ERASE = ("log", "erase", "--user", "ann", "--reason", "request 7")


def in_terminal(arguments: tuple[str, ...], typed: str) -> tuple[int, str]:
    """Run a command whose input is a terminal; return its exit code and what it printed."""
    controller, terminal = pty.openpty()
    os.write(controller, typed.encode())
    command = [fork_server.graph_agent(), *arguments]
    ended = subprocess.run(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    os.close(terminal)
    os.close(controller)
    return ended.returncode, ended.stdout


def decisions(cli: Cli, user: str) -> int:
    return len(cli("log", "list", "--user", user).out.splitlines())


def test_an_erasure_needs_a_yes_and_a_dry_run_erases_nothing(cli: Cli) -> None:
    cli("ask", "--user", "ann", "add a task to call mom")
    refused = cli(*ERASE)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "--yes confirms it" in refused.err
    tried = cli(*ERASE, "--dry-run")
    assert (tried.code, tried.out) == (0, "1 decision, 1 conversation and 1 operation would be erased\n")
    assert "receipt" not in tried.out
    code, printed = in_terminal(ERASE, "n\n")
    assert (code, "Erase 1 decision, 1 conversation and 1 operation of the user ann?" in printed) == (1, True)
    assert "Nothing was removed." in printed
    assert (decisions(cli, "ann"), cli("log", "verify").code) == (1, 0)

    code, printed = in_terminal(ERASE, "y\n")
    assert (code, "1 decision, 1 conversation and 1 operation erased" in printed) == (0, True), printed
    assert decisions(cli, "ann") == 0


def test_an_erasure_says_what_stays_in_the_database_and_at_each_server(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("ask", "--user", "ann", "add a task to call mom")
    own = cli(*ERASE, "--dry-run").err
    assert "1 task of the user stays in this database, in the table `tasks`." in own
    assert "backups" in own

    notebook = {
        "python": str(ROOT / "examples" / "notes" / "server.py"),
        "args": [str(tmp_path / "notes.db")],
        "timeout": 60,
    }
    plain = {"command": fork_server.python(), "args": [str(ROOT / "tests/mcp/notes_server.py"), str(tmp_path)], "timeout": 60}
    listed = {"books": {**notebook, "trusted": True}, "wiki": plain, "gone": {"command": "/no/such/command"}}
    file = tmp_path / "servers.json"
    file.write_text(str({"mcpServers": listed}).replace("'", '"').replace("True", "true"), encoding="utf-8")
    monkeypatch.setenv("GRAPH_AGENT_MCP", str(file))
    ended = cli(*ERASE, "--yes")
    assert ended.code == 0
    assert (
        "The MCP server 'books' keeps a ledger, with the user and the result of each call: erase the user there." in ended.err
    )
    assert "The MCP server 'wiki' keeps no ledger" in ended.err
    assert "The MCP server 'gone' did not answer" in ended.err
    assert decisions(cli, "ann") == 0


def test_an_erasure_that_is_not_possible_is_refused_before_the_question(cli: Cli, log: Database) -> None:
    store_records(log, make_record(1, user="ann"))
    # Without the MAC of this installation, the leaf of the record does not get into the tree.
    for more in ("--dry-run", "--yes"):
        ended = cli(*ERASE, more)
        assert ended.code != 0
        assert "not in the tree" in ended.err


def test_pruning_asks_before_it_removes_what_the_retention_keeps(cli: Cli, log: Database) -> None:
    now = datetime.now(UTC)
    records = [make_record(number, at=now - timedelta(days=days)) for number, days in enumerate((40, 20, 1), start=1)]
    store_records(log, *records, key=record_keys(read_settings()))
    prune = ("log", "prune", "--days", "7")
    refused = cli(*prune)
    assert (refused.code, "--yes confirms it" in refused.err) == (2, True)
    assert cli(*prune, "--dry-run").out.startswith("2 decisions from before ")
    assert cli(*prune, "--dry-run", "--json").json()["decisions"] == 2
    code, printed = in_terminal(prune, "n\n")
    assert (code, "which the retention of 30 days keeps?" in printed) == (1, True), printed
    assert len(cli("log", "list").out.splitlines()) == 3
    # What the server removes by itself needs no question.
    assert cli("log", "prune", "--json").json()["decisions"] == 1
    assert cli(*prune, "--yes", "--json").json()["decisions"] == 1

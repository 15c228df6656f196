"""The procedures of docs/operations.md."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.clock import ManualClock
from graph_agent.settings import read_settings
from tests.cli.conftest import Cli

FULL_AT = 40_000
"""The size that no file can exceed: enough to open a SQLite database, too little for the transaction that claims a turn."""


def use(cli: Cli) -> str:
    """Add a task and ask for the deletion of another one; return the id of the pending action."""
    for text in ("add a task to call mom", "add a task to buy milk"):
        assert cli("ask", text).code == 0
    pending: str = cli("ask", "delete the buy milk task", "--json").json()["decision"]["pending_action"]["id"]
    return pending


def count(file: Path, table: str) -> int:
    with closing(sqlite3.connect(file)) as database:
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.mark.postgresql
def test_move_from_sqlite_to_postgresql(
    cli: Cli, home: Path, fresh_postgresql_url: str, monkeypatch: pytest.MonkeyPatch, token: tuple[str, str]
) -> None:
    pending = use(cli)
    database = home / "graph_agent.db"
    copied = cli("db", "copy", f"sqlite:///{database}", fresh_postgresql_url, "--json")
    assert copied.code == 0, copied.err
    assert copied.json()["rows"] == {table: count(database, table) for table in copied.json()["rows"]}
    refused = cli("db", "copy", f"sqlite:///{database}", fresh_postgresql_url)
    assert (refused.code, "the target is not empty" in refused.err) == (3, True)

    monkeypatch.setenv("DATABASE_URL", fresh_postgresql_url)
    verified = cli("log", "verify")
    assert (verified.code, "3 records" in verified.out, "5 turns and operations compared" in verified.out) == (0, True, True)
    # The confirmation was asked before the move. New rows get new numbers.
    assert "Delete task 'buy milk'" in cli("questions", "answer", "--yes", pending, *token).out
    assert "Add task 'water the plants'" in cli("ask", "add a task to water the plants").out
    assert cli("ask", "show my tasks").out.startswith("You have 2 tasks:\n1. [ ] water the plants\n2. [ ] call mom")
    assert cli("replay", "--all").code == 0


@pytest.mark.postgresql
def test_a_copy_that_fails_leaves_the_target_empty(cli: Cli, home: Path, fresh_postgresql_url: str) -> None:
    use(cli)
    with closing(sqlite3.connect(home / "graph_agent.db")) as log, log:
        newest = "decision_id = (SELECT decision_id FROM decision_logs ORDER BY created_at DESC LIMIT 1)"
        log.execute(f"UPDATE decision_logs SET model = ? WHERE {newest}", ("m" * 300,))
    copy = partial(cli, "db", "copy", f"sqlite:///{home / 'graph_agent.db'}", fresh_postgresql_url)
    sentence = "graph-agent: a row of the table decision_logs cannot be stored in the target; nothing was copied\n"
    assert (copy().code, copy().err) == (3, sentence)
    with closing(sqlite3.connect(home / "graph_agent.db")) as log, log:
        log.execute("UPDATE decision_logs SET model = 'embedded'")
    assert copy().code == 0


def test_a_copy_needs_a_database_of_this_program(cli: Cli, tmp_path: Path) -> None:
    missing, other = tmp_path / "missing.db", tmp_path / "other.db"
    sqlite3.connect(other).close()
    assert "there is no database file" in cli("db", "copy", f"sqlite:///{missing}", "sqlite://").err
    assert not missing.exists()
    other.touch()
    assert cli("db", "copy", f"sqlite:///{other}", "sqlite://").err == "graph-agent: the source has no tables of graph-agent\n"


def test_a_database_from_before_the_first_release_is_neither_opened_nor_copied(cli: Cli, home: Path, tmp_path: Path) -> None:
    use(cli)
    with closing(sqlite3.connect(home / "graph_agent.db")) as database:
        for name in ("due", "record", "task_server", "question", "conversations"):
            database.execute(f"ALTER TABLE {name}_schema RENAME TO {name}_version")
    refused = cli("ask", "show my tasks")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.splitlines()[-1].startswith(
        "graph-agent: the database is from before the first release of graph-agent: "
    )
    copied = cli("db", "copy", f"sqlite:///{home}/graph_agent.db", f"sqlite:///{tmp_path / 'new.db'}")
    assert (copied.code, copied.err) == (3, "graph-agent: the source has no tables of graph-agent\n")


def test_back_up_and_restore(cli: Cli, home: Path, tmp_path: Path, token: tuple[str, str]) -> None:
    pending = use(cli)
    backup = tmp_path / "backup"
    backup.mkdir()
    # The server goes on before the database is copied.
    assert cli("ask", "what can you do?").code == 0
    assert cli("db", "copy", f"sqlite:///{home / 'graph_agent.db'}", f"sqlite:///{backup / 'graph_agent.db'}").code == 0
    for key in ("secret", "log.key"):
        shutil.copy2(home / key, backup)

    cli("ask", "add a task that is lost")
    shutil.rmtree(home)
    shutil.copytree(backup, home)
    verified = cli("log", "verify")
    assert (verified.code, "4 records" in verified.out) == (0, True)
    assert "Delete task 'buy milk'" in cli("questions", "answer", "--yes", pending, *token).out
    assert "1. [ ] call mom" in cli("ask", "show my tasks").out


def test_rotate_the_secret(cli: Cli, home: Path, token: tuple[str, str]) -> None:
    pending = use(cli)
    secret = home / "secret"
    secret.write_text(f"{'n' * 64}\n{secret.read_text()}\n")
    assert "Delete task 'buy milk'" in cli("questions", "answer", "--yes", pending, *token).out
    verified = cli("log", "verify")
    assert (verified.code, "4 records" in verified.out) == (0, True)
    secret.write_text("n" * 64)
    # What is in the tree needs no secret, and the rows of calls that were sent need theirs as long as they are kept.
    found = cli("log", "verify", "--json").json()["violations"]
    assert found
    assert all(one["text"].startswith("the operation ") for one in found)


def test_a_full_disk(cli: Cli) -> None:
    use(cli)

    def fill_the_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_AT, FULL_AT))

    command = [sys.executable, "-c", "from graph_agent.cli.main import main; main()", "ask", "add a task to water the plants"]
    # It runs in a process of its own, because the limit is one of the process. It must not truncate bytecode that others read.
    # The files in which coverage stores its data would be full too.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    environment = {**inherited, "PYTHONDONTWRITEBYTECODE": "1"}
    full = subprocess.run(command, env=environment, preexec_fn=fill_the_disk, capture_output=True, text=True, timeout=120)
    assert (full.returncode, full.stdout) == (1, "")
    assert full.stderr.splitlines()[-1].startswith("graph-agent: ")
    assert "Add task 'water the plants'" in cli("ask", "add a task to water the plants").out
    assert cli("ask", "show my tasks").out.count("water the plants") == 1
    assert cli("log", "verify").code == 0


def test_a_clock_that_was_wrong(cli: Cli, home: Path, token: tuple[str, str]) -> None:
    del home

    async def ask_for_a_deletion(at: datetime) -> tuple[str, str]:
        async with open_runtime(read_settings(), model="embedded", clock=ManualClock(at)) as runtime:
            await runtime.chat.send("local", "add a task to call mom")
            asked = await runtime.chat.send("local", "delete the call mom task")
            assert asked.decision.pending_action is not None
            return asked.conversation_id, asked.decision.pending_action.id

    conversation, pending = asyncio.run(ask_for_a_deletion(datetime.now(UTC) + timedelta(hours=1)))
    # The question has the time of the database: a host's clock neither makes it void nor keeps it open.
    assert "Delete task 'call mom'" in cli("questions", "answer", "--yes", pending, *token).out
    assert "call mom" not in cli("ask", "show my tasks", "--conversation", conversation).out
    assert cli("log", "verify").code == 0


def test_migrate_creates_the_tables_of_tasks_conversations_and_record(cli: Cli, home: Path) -> None:
    assert cli("db", "migrate").code == 0
    assert [count(home / "graph_agent.db", table) for table in ("tasks", "turns", "decision_logs")] == [0, 0, 0]

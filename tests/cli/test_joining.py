"""The record that earlier versions kept in a database of its own is joined with the conversations, or the start is refused."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from graph_agent.bootstrap.copying import KEPT, join_home
from graph_agent.chat.conversations.tables import metadata as conversations
from graph_agent.record.tree.tables import tree_leaves
from graph_agent.settings import read_settings
from graph_agent.task_server.store import metadata as tasks
from tests.cli.conftest import Cli

EARLIER = ("record_blobs", "record_entries")
TREE = [name for name in tree_leaves.metadata.tables if name.startswith(("tree_", "record_")) and name not in EARLIER]
PACKAGES = ("graph_agent.record", "graph_agent.task_server", "graph_agent.chat.conversations")


def split(cli: Cli, home: Path) -> str:
    """Use the home and put its record into `log.db`, as earlier versions did; return the id of a pending action."""
    assert cli("ask", "add a task to buy milk").code == 0
    pending: str = cli("ask", "delete the buy milk task", "--json").json()["decision"]["pending_action"]["id"]
    database, log = home / "graph_agent.db", home / "log.db"
    shutil.copy2(database, log)
    drop(database, [*tree_leaves.metadata.tables, "audit_version"])
    drop(log, [*tasks.tables, *conversations.tables, "task_server_version", "conversations_version"])
    return pending


def drop(file: Path, names: list[str]) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("PRAGMA foreign_keys=OFF")
        for name in names:
            database.execute(f"DROP TABLE {name}")


def dump(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as database:
        return list(database.iterdump())


def assert_joined(cli: Cli, home: Path, pending: str) -> None:
    verified = cli("log", "verify")
    assert (verified.code, "2 records" in verified.out) == (0, True), verified.out + verified.err
    assert "deleted 'buy milk'" in cli("ask", "--yes", pending).out
    assert not (home / "log.db").exists()


def test_two_files_are_joined_at_the_first_start_and_kept(cli: Cli, home: Path) -> None:
    pending = split(cli, home)
    before = {name: dump(home / name) for name in ("graph_agent.db", "log.db")}
    (home / "joining").mkdir()
    (home / "joining" / "log.db").write_text("left by a start that was killed")

    assert_joined(cli, home, pending)

    assert {name: dump(home / KEPT / name) for name in before} == before
    assert not (home / "joining").exists()


def test_of_several_starts_at_once_one_joins(cli: Cli, home: Path) -> None:
    pending = split(cli, home)

    with ThreadPoolExecutor(3) as starts:
        for start in [starts.submit(join_home, read_settings(), PACKAGES) for _ in range(3)]:
            start.result()

    assert_joined(cli, home, pending)


def test_a_start_that_was_killed_after_the_files_were_joined_loses_nothing(cli: Cli, home: Path) -> None:
    pending = split(cli, home)
    assert cli("log", "list").code == 0
    (home / KEPT / "log.db").rename(home / "log.db")

    assert_joined(cli, home, pending)


def test_files_in_use_are_not_joined(cli: Cli, home: Path) -> None:
    pending = split(cli, home)
    with closing(sqlite3.connect(home / "log.db")) as server:
        server.execute("PRAGMA journal_mode=WAL")
        server.execute("SELECT * FROM decision_logs").fetchone()
        refused = cli("ask", "show my tasks")
    assert (refused.code, "stop all other processes" in refused.err) == (1, True)

    assert_joined(cli, home, pending)


@pytest.mark.parametrize("explicit", [False, True])
def test_two_urls_are_refused_with_the_command_that_joins_them(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, explicit: bool
) -> None:
    pending = split(cli, home)
    if explicit:
        monkeypatch.setenv("DATABASE_URL", f"sqlite:///{home / 'graph_agent.db'}")
    monkeypatch.setenv("LOG_DATABASE_URL", f"sqlite:///{home / 'log.db'}")

    run_printed_command(cli)

    monkeypatch.setenv("DATABASE_URL", os.environ["LOG_DATABASE_URL"])
    assert cli("log", "verify").code == 0
    assert "deleted 'buy milk'" in cli("ask", "--yes", pending).out


def test_an_older_record_in_the_home_beside_another_database_is_refused_with_the_command_that_joins_them(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = split(cli, home)
    drop(home / "log.db", ["metrics_hours", "call_operations", *TREE])
    with closing(sqlite3.connect(home / "log.db")) as former, former:
        for table in ("decision_logs", "baselines", "reports"):
            former.execute(f"ALTER TABLE {table} DROP COLUMN salt")
        for table in ("baselines", "reports"):
            former.execute(f"ALTER TABLE {table} ADD COLUMN seal VARCHAR(64)")
        former.execute("CREATE TABLE record_chains (chain VARCHAR(36), started_at VARCHAR, cut_n INTEGER)")
        former.execute("CREATE TABLE record_links (chain VARCHAR(36), n INTEGER, decision_id VARCHAR(64), cut VARCHAR(64))")
        former.execute("UPDATE audit_version SET version_num = '0009'")
    (home / "graph_agent.db").rename(home / "other.db")
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{home / 'other.db'}")

    run_printed_command(cli)

    assert cli("log", "verify").code == 0
    assert "deleted 'buy milk'" in cli("ask", "--yes", pending).out


def test_conversations_without_their_record_are_refused(cli: Cli, home: Path) -> None:
    split(cli, home)
    (home / "log.db").unlink()

    refused = cli("log", "list")

    assert (refused.code, "db copy URL_OF_THE_RECORD" in refused.err) == (1, True)


def run_printed_command(cli: Cli) -> None:
    refused = cli("ask", "show my tasks")
    assert (refused.code, refused.out) == (1, "")
    _, command, *_ = refused.err.split("`")
    program, *arguments = shlex.split(os.path.expandvars(command))
    assert program == "graph-agent"
    copied = cli(*arguments)
    assert copied.code == 0, copied.err

"""Homes that earlier commits wrote: each opens, is backed up, restored and verified. Each is named by its record's revision.

0009 is from commit 825b673, with its record in `log.db`; 0010 from 97d3db3, 0012 from 7246f20, 0013 from f002131. All were
written by the same five messages.
"""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, MetaData

from graph_agent.chat.conversations.tables import metadata as conversation_tables
from graph_agent.db import Database
from graph_agent.record.tree.tables import tree_leaves
from graph_agent.task_server.store import metadata as task_tables
from tests.cli.conftest import Cli

HOMES = sorted((Path(__file__).parent / "homes").glob("*.tar.xz"))
TASKS = "You have 2 tasks:\n1. [ ] buy milk\n2. [ ] call mom\n"


def extract(file: Path, home: Path) -> None:
    shutil.rmtree(home)
    with tarfile.open(file) as members:
        members.extractall(home, filter="data")


@pytest.mark.parametrize("file", HOMES, ids=lambda file: file.name.partition(".")[0])
def test_the_home_of_an_earlier_commit_is_upgraded_backed_up_and_restored(
    cli: Cli, home: Path, tmp_path: Path, file: Path
) -> None:
    extract(file, home)
    assert cli("ask", "show my tasks").out == TASKS
    listed = cli("log", "list").out
    assert listed.count("\n") == 6
    backup = tmp_path / "backup"
    shutil.copytree(home, backup, ignore=shutil.ignore_patterns("graph_agent.db*", "before_join", "terminals"))
    urls = (f"sqlite:///{folder / 'graph_agent.db'}" for folder in (home, backup))
    copied = cli("db", "copy", *urls)
    assert copied.code == 0, copied.err

    shutil.rmtree(home)
    shutil.copytree(backup, home)
    verified = cli("log", "verify")
    assert (verified.code, verified.out.startswith("intact: 6 records")) == (0, True), verified.out
    assert cli("log", "list").out == listed
    assert cli("replay", "--all").code == 0
    assert cli("ask", "show my tasks").out == TASKS


def differences(connection: Connection, declared: MetaData) -> list[object]:
    def is_declared(name: str | None, kind: str, _parents: object) -> bool:
        return kind != "table" or name in declared.tables

    return list(compare_metadata(MigrationContext.configure(connection, opts={"include_name": is_declared}), declared))


@pytest.mark.parametrize("file", HOMES, ids=lambda file: file.name.partition(".")[0])
def test_an_upgraded_database_has_the_declared_tables(cli: Cli, home: Path, file: Path) -> None:
    extract(file, home)
    assert cli("db", "migrate").code == 0
    database = Database.open(f"sqlite:///{home / 'graph_agent.db'}")
    for declared in (tree_leaves.metadata, conversation_tables, task_tables):
        assert database.read_now(partial(differences, declared=declared)) == []
    database.close_now()


def test_a_schema_from_before_these_is_refused_with_one_sentence(cli: Cli, home: Path) -> None:
    with closing(sqlite3.connect(home / "graph_agent.db")) as file, file:
        file.execute("UPDATE audit_version SET version_num = '0003'")
    refused = cli("ask", "show my tasks")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "graph-agent: the database has a schema (audit_version 0003) from before those that this version can upgrade "
        "(0009 and later)\n"
    )

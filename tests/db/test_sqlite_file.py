"""The file of a SQLite database: private whatever the umask, and never silently another one."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.db.backend import Work


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    before = os.umask(0)
    opened = Database.open(f"sqlite:///{path}")
    yield opened
    opened.close_now()
    os.umask(before)


def run(statement: str) -> Work[None]:
    return lambda connection: connection.exec_driver_sql(statement).close()


def modes(path: Path) -> set[int]:
    return {file.stat().st_mode & 0o777 for file in path.parent.iterdir()}


def test_a_new_database_and_its_side_files_are_readable_by_their_owner_only(database: Database, path: Path) -> None:
    database.write_now(run("CREATE TABLE t (n INTEGER)"))
    assert len(list(path.parent.iterdir())) == 3
    assert modes(path) == {0o600}


def test_an_existing_database_becomes_private_at_its_first_use(database: Database, path: Path) -> None:
    path.touch(mode=0o644)
    database.read_now(run("SELECT 1"))
    assert modes(path) == {0o600}


@pytest.mark.parametrize("replaced", [False, True])
def test_a_removed_or_replaced_file_refuses_writes_and_reads(
    database: Database, path: Path, replaced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    database.write_now(run("CREATE TABLE t (n INTEGER)"))
    away = path.with_name("away.db")
    path.rename(away)
    if replaced:
        other = Database.open(f"sqlite:///{path}")
        other.write_now(run("CREATE TABLE t (n INTEGER)"))
        other.close_now()
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            with pytest.raises(DatabaseUnavailableError):
                database.write_now(run("INSERT INTO t VALUES (1)"))
            with pytest.raises(DatabaseUnavailableError):
                database.read_now(run("SELECT * FROM t"))
    assert [record.getMessage() for record in caplog.records] == [
        f"the database file {path} was removed or replaced while it was in use: restart this process"
    ]
    assert path.exists() is replaced
    if replaced:
        return  # the other file has taken over the write-ahead log too, so the first one cannot come back
    away.replace(path)
    database.write_now(run("INSERT INTO t VALUES (2)"))
    assert database.read_now(lambda connection: connection.exec_driver_sql("SELECT n FROM t").scalars().all()) == [2]


def test_a_file_that_is_removed_during_a_batch_commits_nothing(database: Database, path: Path) -> None:
    database.write_now(run("CREATE TABLE t (n INTEGER)"))
    away = path.with_name("away.db")

    def insert_and_move_file(connection: object) -> None:
        run("INSERT INTO t VALUES (1)")(connection)  # type: ignore[arg-type]  # the connection that `write_now` passes
        path.rename(away)

    with pytest.raises(DatabaseUnavailableError):
        database.write_now(insert_and_move_file)
    away.replace(path)
    assert database.read_now(lambda connection: connection.exec_driver_sql("SELECT n FROM t").scalars().all()) == []

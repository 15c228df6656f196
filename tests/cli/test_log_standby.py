"""Queries of a streaming standby of the log's PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graph_agent.db import Database
from tests.cli.conftest import Cli
from tests.cluster.services import PostgreSql, wait_until
from tests.run_folder import VARIABLE


@contextmanager
def standby_of(primary: PostgreSql, folder: Path) -> Iterator[str]:
    """Run a standby that receives what `primary` commits; yield its URL."""
    data = folder / "standby"
    sockets = folder / "sockets"
    for made in (data, sockets):
        made.mkdir(mode=0o700)
        if primary.user is not None:
            shutil.chown(made, primary.user)
    source = ("-h", primary.socket_folder, "-U", "postgres", "--checkpoint=fast", "--no-sync")
    primary.run("pg_basebackup", "-D", str(data), *source, "--write-recovery-conf")
    settings = f"-c listen_addresses='' -c unix_socket_directories={sockets}"
    primary.run("pg_ctl", "-w", "-D", str(data), "-l", str(data / "log"), "-o", settings, "start")
    try:
        yield primary.url.replace(primary.socket_folder, str(sockets))
    finally:
        primary.run("pg_ctl", "-w", "-D", str(data), "-m", "immediate", "stop")


def wait_until_received(primary: Database, standby: Database) -> None:
    """Block until the standby has applied everything that is committed now."""
    at = primary.read_now(lambda connection: connection.exec_driver_sql("SELECT pg_current_wal_lsn()::text").scalar_one())
    applied = f"SELECT pg_last_wal_replay_lsn() >= '{at}'::pg_lsn"
    wait_until(
        lambda: bool(standby.read_now(lambda connection: connection.exec_driver_sql(applied).scalar_one())), "the standby"
    )


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.usefixtures("postgresql_url")  # its process ends the two servers if the tests are killed
def test_a_streaming_standby_answers_the_queries(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ[VARIABLE], prefix="standby-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        primary = PostgreSql(folder)
        try:
            monkeypatch.setenv("DATABASE_URL", primary.url)
            assert cli("ask", "add a task to call mom").code == 0
            with standby_of(primary, folder) as url:
                monkeypatch.setenv("LOG_READ_URL", url)
                assert cli("ask", "add a task to buy milk").code == 0
                written, read = Database.open(primary.url), Database.open(url)
                wait_until_received(written, read)
                written.close_now()
                read.close_now()
                assert len(cli("log", "list", "--json").out.splitlines()) == 2
                for command in ("log metrics", "log verify", "log export", "replay --all"):
                    result = cli(*command.split())
                    assert result.code == 0, (command, result.out, result.err)
        finally:
            primary.close()

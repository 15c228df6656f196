"""Turns through PgBouncer in transaction mode, where every transaction may get another connection of the server."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.chat.answer import ChatAnswer
from graph_agent.db import Database
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.settings import read_settings
from tests.cli.conftest import Cli

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
USERS = 8

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.skipif(PGBOUNCER is None, reason="there is no PgBouncer: apt-get install pgbouncer"),
]

_CONFIGURATION = """
[databases]
{database} = host={server} port=5432 dbname={database} user=postgres
[pgbouncer]
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 3
"""


@pytest.fixture
def pooled_url(postgresql_url: str) -> Iterator[str]:
    """The URL of an empty database behind a PgBouncer with fewer connections than the backend has threads."""
    assert PGBOUNCER is not None
    # A database, because PgBouncer does not pass `options` on, by which other tests choose a schema.
    name = f"test_{uuid.uuid4().hex}"
    server = str(make_url(postgresql_url).query["host"])
    psql = ["psql", "--quiet", "--host", server, "--username", "postgres", "postgres", "--command"]
    subprocess.run([*psql, f"CREATE DATABASE {name}"], check=True)
    with tempfile.TemporaryDirectory(prefix="pgb-") as folder:
        Path(folder).chmod(0o777)
        file = Path(folder) / "pgbouncer.ini"
        file.write_text(_CONFIGURATION.format(database=name, server=server, folder=folder))
        # It refuses to run as root, and the server's socket is in a folder of the server's user.
        user = ["--user", Path(server).owner()] if os.geteuid() == 0 else []
        pooler = subprocess.Popen([PGBOUNCER, *user, str(file)], stderr=subprocess.PIPE, text=True)
        try:
            assert pooler.stderr is not None
            started = next((line for line in pooler.stderr if "process up" in line), None)
            assert started is not None, "PgBouncer did not start"
            yield f"postgresql://postgres@/{name}?host={folder}&port=6432"
        finally:
            pooler.terminate()
            pooler.communicate()


@pytest.mark.slow
def test_turns_with_confirmation_replay_and_verify(cli: Cli, pooled_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", pooled_url)

    async def delete_a_task(runtime: Runtime, user: str) -> ChatAnswer:
        await runtime.chat.send(user, "add a task to buy milk")
        asked = await runtime.chat.send(user, "delete the buy milk task")
        assert asked.decision.pending_action is not None
        answer = ConfirmationAnswer(pending_action=asked.decision.pending_action.id, yes=True)
        return await runtime.chat.send(user, "yes", conversation_id=asked.conversation_id, answers=answer)

    async def delete_at_once() -> list[ChatAnswer]:
        async with open_runtime(read_settings(), model="embedded") as runtime:
            return await asyncio.gather(*(delete_a_task(runtime, f"user-{number}") for number in range(USERS)))

    answers = asyncio.run(delete_at_once())
    assert {answer.decision.outcome_category for answer in answers} == {"SUCCESS:TASK_COMPLETED"}
    verified = cli("log", "verify")
    assert (verified.code, f"{3 * USERS} records" in verified.out) == (0, True), verified.out
    assert cli("replay", "--all").code == 0
    assert cli("log", "prune", "--days", "1", "--yes").code == 0


def test_no_setting_of_a_transaction_reaches_the_next(pooled_url: str) -> None:
    database = Database.open(pooled_url)
    show = "SELECT current_setting('lock_timeout'), current_setting('transaction_read_only')"
    within = database.write_now(lambda connection: tuple(connection.exec_driver_sql(show).one()))
    reading = database.read_now(lambda connection: tuple(connection.exec_driver_sql(show).one()))
    database.close_now()
    assert (within, reading) == (("5s", "off"), ("0", "on"))

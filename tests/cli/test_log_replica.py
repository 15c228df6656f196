"""Queries of a replica of the log, and the number of connections of a process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import make_url

from graph_agent.audit.queries import LogQueryService
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.stores import open_stores
from graph_agent.db import Database
from graph_agent.settings import read_settings
from tests.cli.conftest import Cli

CONNECTIONS = 5


def test_queries_read_the_replica_and_turns_write_the_log(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A copy of this moment is a replica that is far behind.
    copy = f"sqlite:///{tmp_path / 'copy.db'}"
    assert cli("ask", "add a task to call mom").code == 0
    assert cli("db", "copy", f"sqlite:///{home / 'graph_agent.db'}", copy).code == 0
    monkeypatch.setenv("LOG_READ_URL", copy)
    newest = cli("ask", "add a task to buy milk", "--json").json()["decision_id"]

    assert newest not in cli("log", "list", "--json").out
    assert cli("log", "metrics", "--json").json()["total"] == 1
    assert cli("log", "export").out.count('"type":"decision"') == 1
    assert len(cli("replay", "--all", "--json").out.splitlines()) == 1
    # The newer head and turns are compared with the log itself.
    verified = cli("log", "verify")
    assert (verified.code, "intact: 1 record, tree size 1, " in verified.out) == (0, True), verified.out

    async def trace() -> str:
        async with open_stores(read_settings()) as stores:
            queries = LogQueryService(stores.log_reads, current=stores.database)
            return (await queries.get_decision_trace(newest)).decision.message

    assert asyncio.run(trace()) == "add a task to buy milk"
    monkeypatch.delenv("LOG_READ_URL")
    assert newest in cli("log", "list", "--json").out


@pytest.mark.postgresql
def test_a_replica_takes_no_writes(cli: Cli, fresh_postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", fresh_postgresql_url)
    monkeypatch.setenv("LOG_READ_URL", f"{fresh_postgresql_url}%20-cdefault_transaction_read_only%3Don")
    assert cli("ask", "add a task to call mom").code == 0
    assert len(cli("log", "list", "--json").out.splitlines()) == 1
    for command in ("log metrics", "log verify", "log export", "replay --all"):
        assert cli(*command.split()).code == 0, command


@pytest.mark.postgresql
async def test_a_process_keeps_to_its_number_of_connections(fresh_postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(name: str) -> str:
        return f"{fresh_postgresql_url}&application_name={name}"

    monkeypatch.setenv("DATABASE_URL", named("all"))
    monkeypatch.setenv("LOG_READ_URL", named("replica"))
    monkeypatch.setenv("GRAPH_AGENT_DATABASE_CONNECTIONS", str(CONNECTIONS))
    counted = "SELECT application_name, count(*) FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1"
    async with open_runtime(read_settings(), model="embedded") as runtime:
        queries = LogQueryService(runtime.log_reads)
        await asyncio.gather(
            *(runtime.chat.send(f"user-{number}", "add a task to call mom") for number in range(30)),
            *(queries.query_decisions() for _ in range(30)),
        )
        # A pool keeps its connections, so this is the largest number there ever was.
        other = Database.open(str(make_url(fresh_postgresql_url).render_as_string(hide_password=False)))
        found = await other.read(lambda connection: {row[0]: row[1] for row in connection.exec_driver_sql(counted)})
        await other.close()
    # Two connections of each pool only close turns; the queries do not use theirs. On a busy machine a pool may not fill up.
    limits = {"all": CONNECTIONS, "replica": CONNECTIONS - 2}
    assert {name for name, limit in limits.items() if not 1 <= found[name] <= limit} == set()

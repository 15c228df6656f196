"""The checks of a cluster that has stopped: nothing lost, nothing doubled, nothing left open."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.chat.recovery import ABANDONED_AFTER
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.settings import read_settings
from tests.cluster.clients import Client
from tests.cluster.services import GRAPH_AGENT

OPEN_ROWS: Mapping[str, str] = {
    "running turns": "SELECT id FROM turns WHERE state <> 'done'",
    "open decisions": "SELECT decision_id FROM decision_logs WHERE status NOT IN ('completed', 'interrupted')",
    "turns without a decision": "SELECT id FROM turns WHERE id NOT IN (SELECT decision_id FROM decision_logs)",
    # A refused turn may leave a decision if the commit of its opening row failed without an answer of the database.
    "decisions without a turn that are not interrupted, or have called a tool": (
        "SELECT decision_id FROM decision_logs WHERE decision_id NOT IN (SELECT id FROM turns) "
        "AND (status <> 'interrupted' OR decision_id IN (SELECT decision_id FROM tool_invocation_logs))"
    ),
    "turns without exactly one message of each role": (
        "SELECT t.id FROM turns t LEFT JOIN messages m ON m.decision_id = t.id GROUP BY t.id "
        "HAVING count(*) FILTER (WHERE m.role = 'user') <> 1 OR count(*) FILTER (WHERE m.role = 'assistant') <> 1"
    ),
    "decisions that are not in the tree exactly once": (
        "SELECT d.decision_id FROM decision_logs d LEFT JOIN record_leaves l ON l.item = d.decision_id AND l.kind = 'decision' "
        "GROUP BY d.decision_id HAVING count(l.n) <> 1"
    ),
    "leaves without a place, or twice in the tree": (
        "SELECT min(t.n) FROM tree_leaves t LEFT JOIN record_leaves l ON l.n = t.n AND l.kind = t.kind "
        "GROUP BY t.commitment HAVING count(*) <> 1 OR count(l.n) <> 1"
    ),
    "doubled keys": "SELECT user_id, idem_key FROM turns GROUP BY user_id, idem_key HAVING count(*) > 1",
}
"""What may not exist -> the query that finds it."""


def find_problems(url: str, environment: Mapping[str, str], clients: Sequence[Client]) -> list[str]:
    """Return a sentence for everything that is not as the clients and the record say."""
    problems = [problem for client in clients for problem in client.problems]
    if swept := asyncio.run(_serve_due(environment)):
        print(f"{swept} decisions were closed by the sweeper after {ABANDONED_AFTER}")
    database = Database.open(url)
    try:
        for what, query in OPEN_ROWS.items():
            if found := _rows(database, query):
                problems.append(f"{len(found)} {what}, such as {found[0]}")
        tasks = Counter(_rows(database, "SELECT user_id, description FROM tasks"))
        effects = _rows(database, "SELECT user_id, count(*) FROM operations WHERE state = 'DONE' GROUP BY user_id")
    finally:
        database.close_now()
    expected = Counter(
        (client.user, description) for client in clients for description in client.added if description not in client.deleted
    )
    # A change whose outcome was reported as not known was made once or not at all.
    uncertain = Counter((client.user, description) for client in clients for description in client.uncertain)
    problems += [f"lost: {task}" for task in expected - tasks - uncertain]
    problems += [f"doubled, or deleted and still there: {task}" for task in tasks - expected - uncertain]
    acknowledged = {client.user: len(client.added) + len(client.deleted) for client in clients}
    possible = {client.user: acknowledged[client.user] + len(client.uncertain) for client in clients}
    problems += [
        f"{user}: {count} changes in the ledger, {acknowledged.get(user, 0)} to {possible.get(user, 0)} acknowledged"
        for user, count in effects
        if not acknowledged.get(user, 0) <= count <= possible.get(user, 0)
    ]
    command = [GRAPH_AGENT, "log", "verify"]
    verified = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if verified.returncode != 0:
        problems.append(f"log verify: {verified.stdout}{verified.stderr}")
    return problems


async def _serve_due(environment: Mapping[str, str]) -> int:
    """Run the sweeper at the time at which it closes old decisions; return how many it has closed."""
    clock = ManualClock(datetime.now(UTC) + ABANDONED_AFTER + timedelta(minutes=1))
    with tempfile.TemporaryDirectory() as home:
        settings = read_settings({**environment, "GRAPH_AGENT_HOME": home})
        async with open_runtime(settings, model="embedded", clock=clock) as runtime:
            # The sweeper compares times by the clock of the database.
            runtime.database.clock = clock
            return await ChatService(runtime.engine, clock=clock).serve_due()


def _rows(database: Database, query: str) -> list[Any]:
    return database.read_now(lambda connection: [tuple(row) for row in connection.exec_driver_sql(query)])

"""Two servers on one PostgreSQL, whose clocks differ and one of which is paused, send no call of a plain tool twice."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph_agent.chat.leases import LEASE
from graph_agent.db import Database
from tests import fork_server

pytestmark = pytest.mark.postgresql

ROOT = Path(__file__).parents[2]
CONSTITUTION = "## Available Tools\n- send: Send a text (without confirmation)\n"
CLIENTS = 12


@dataclass(frozen=True)
class Replica:
    """A server in another process."""

    process: int
    url: str


@dataclass(frozen=True)
class Replicas:
    """Two servers: the clock of the first one is right."""

    servers: tuple[Replica, Replica]
    database: str
    file: Path
    """What the tool has sent, one text in a line."""

    @property
    def sent(self) -> Counter[str]:
        return Counter(self.file.read_text(encoding="utf-8").splitlines())


@contextmanager
def running(folder: Path, database: str, skew: float) -> Iterator[Replicas]:
    """Run two servers on an empty database. The clock of the second one is `skew` seconds ahead."""
    (folder / "constitution.md").write_text(CONSTITUTION, encoding="utf-8")
    file = folder / "sent"
    command = {"command": fork_server.python(), "args": [str(ROOT / "tests/chat/plain_server.py"), str(file)], "timeout": 60}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"plain": command}}), encoding="utf-8")
    environment = {
        **os.environ,
        "GRAPH_AGENT_HOME": str(folder),
        "GRAPH_AGENT_CONSTITUTION": str(folder / "constitution.md"),
        "GRAPH_AGENT_MCP": str(folder / "mcp.json"),
        "GRAPH_AGENT_SECRET": "the secret of this test only",
        "GRAPH_AGENT_TURNS_PER_MINUTE": "100000",
        "DATABASE_URL": database,
    }
    with ExitStack() as stack:
        servers = []
        for name, seconds in (("right", 0.0), ("skewed", skew)):
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            started = subprocess.Popen(
                [fork_server.python(), "-m", "tests.chat.replica", str(seconds)],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            stack.enter_context(started)
            stack.callback(started.kill)
            assert started.stdout is not None
            line = started.stdout.readline()
            assert line, (folder / f"{name}.log").read_text(encoding="utf-8")
            process, url = line.split()
            servers.append(Replica(int(process), url))
        first, second = servers
        yield Replicas((first, second), database, file)


async def send(http: httpx.AsyncClient, urls: Sequence[str], key: str) -> dict[str, Any]:
    """Ask the servers in turn, with one key, until one of them answers."""
    for url in itertools.cycle(urls):
        try:
            response = await http.post(f"{url}/api/chat", json={"content": key}, headers={"Idempotency-Key": key})
        except httpx.HTTPError:
            continue  # It is paused.
        if response.status_code == 200:
            return dict(response.json())
        assert response.status_code in (409, 429, 503, 504), response.text
        await asyncio.sleep(0.05)
    raise AssertionError("unreachable")


async def send_all(replicas: Replicas, count: int, pause_seconds: float) -> dict[str, dict[str, Any]]:
    """Send each of `count` keys to both servers at once; return the answers. The skewed server is paused after half of them."""
    urls = [server.url for server in replicas.servers]
    places, begun, answers = asyncio.Semaphore(CLIENTS), itertools.count(), {}
    paused = asyncio.Event()

    async def one(http: httpx.AsyncClient, key: str) -> None:
        async with places:
            if next(begun) == count // 2:
                paused.set()
            both = await asyncio.gather(send(http, urls, key), send(http, urls[::-1], key))
            assert both[0] == both[1]
            answers[key] = both[0]

    async def pause() -> None:
        await paused.wait()
        os.kill(replicas.servers[1].process, signal.SIGSTOP)
        try:
            await asyncio.sleep(pause_seconds)
        finally:
            os.kill(replicas.servers[1].process, signal.SIGCONT)

    async with httpx.AsyncClient(trust_env=False, timeout=2, limits=httpx.Limits(max_connections=None)) as http:
        pausing = asyncio.ensure_future(pause()) if pause_seconds else None
        await asyncio.gather(*(one(http, f"key-{n}") for n in range(count)))
        if pausing is not None:
            await pausing
            # What the paused server goes on with would be sent at once.
            await asyncio.sleep(2 * LEASE.total_seconds())
    return answers


def require_each_key_sent_once(replicas: Replicas, answers: dict[str, dict[str, Any]]) -> None:
    sent = replicas.sent
    assert {key: times for key, times in sent.items() if times > 1} == {}
    effects = {key: answer["decision"]["effects"] for key, answer in answers.items()}
    # A receipt is an effect; without one the user was told that the outcome is not known, or that nothing was done.
    assert [key for key, lines in effects.items() if lines and key not in sent] == []
    told = {key: answer["reply"] for key, answer in answers.items() if not effects[key]}
    assert [key for key, reply in told.items() if key in sent and "not known whether" not in reply] == []
    database = Database.open(replicas.database)
    query = "SELECT count(*) FILTER (WHERE state <> 'done'), count(*) FROM turns"
    left = database.read_now(lambda connection: tuple(connection.exec_driver_sql(query).one()))
    database.close_now()
    assert left == (0, len(answers))


@pytest.mark.parametrize("skew", [10, *(pytest.param(skew, marks=pytest.mark.nightly) for skew in (0.3, -0.3, -10))])
def test_servers_whose_clocks_differ_send_no_call_twice(tmp_path: Path, fresh_postgresql_url: str, skew: float) -> None:
    with running(tmp_path, fresh_postgresql_url, skew) as replicas:
        answers = asyncio.run(send_all(replicas, 12, 0))
        assert set(answers) == set(replicas.sent)
        require_each_key_sent_once(replicas, answers)


@pytest.mark.nightly
@pytest.mark.parametrize("skew", [0.3, -0.3, 1, -1, 10, -10])
def test_a_server_that_was_paused_for_a_minute_sends_no_call_twice(
    tmp_path: Path, fresh_postgresql_url: str, skew: float
) -> None:
    with running(tmp_path, fresh_postgresql_url, skew) as replicas:
        answers = asyncio.run(send_all(replicas, 200, 60))
        require_each_key_sent_once(replicas, answers)

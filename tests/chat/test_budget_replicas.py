"""A budget of 2,000 a day, used by two servers with two workers each on one PostgreSQL, which are killed again and again.

Everything is a process as in a deployment: the servers, the tool servers of their workers, the model behind its API.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from sqlalchemy import select

from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.chat.recovery import ABANDONED_AFTER
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.models.facts import PastUse
from graph_agent.record.operations import find_uses
from graph_agent.settings import read_settings
from tests.chat.till_server import build_till, refunds
from tests.cluster.clients import AUDIENCE, JWT_SECRET, REPEATED
from tests.cluster.services import Replica
from tests.llm.wire_apis import Call, OpenAIAPI
from tests.llm.wire_server import Writer, says, serving
from tests.serving import free_ports
from tests.settling import settle_unknown
from tests.variables import noon_here

pytestmark = [pytest.mark.postgresql, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
LIMIT = 2_000
USERS = [f"user{n}" for n in range(10)]
MESSAGES = 11
"""The messages of each user. Each asks for two refunds, and together for more than the budget."""
KILLS = 6
CONSTITUTION = "## Available Tools\n- refund: Pay an amount back to a customer (without confirmation)\n"
POLICY = f"""permit (principal, action, resource);
@id("at most {LIMIT} a day")
forbid (principal, action == Action::"refund", resource) when {{ context.used.day.sum.amount > {LIMIT} }};
"""


@asynccontextmanager
async def model() -> AsyncIterator[str]:
    """Run a provider whose model makes the refunds that the user names, CUSTOMER=AMOUNT; yield its URL."""
    api = OpenAIAPI()

    async def reply(writer: Writer) -> bool:
        last = wire.requests[-1].body["messages"][-1]
        wanted = re.findall(r"(\w+)=(\d+)", last["content"]) if last["role"] == "user" else []
        calls = [
            Call("refund", {"customer": name, "amount": int(amount)}, id=f"call-{n}") for n, (name, amount) in enumerate(wanted)
        ]
        answer = api.answer(calls=calls, finish="calls") if calls else api.answer(text="Done.")
        return await says(answer)(writer)

    async with serving(reply) as wire:
        yield wire.url


@dataclass
class User:
    """A user with several clients, who repeat what is not answered: with its key, or without one as another message."""

    name: str
    urls: Sequence[str]
    random: random.Random
    answered: list[dict[str, Any]] = field(default_factory=list)

    async def send_all(self) -> None:
        claims = {"sub": self.name, "aud": AUDIENCE, "exp": int(time.time()) + 3600}
        headers = {"Authorization": f"Bearer {jwt.encode(claims, JWT_SECRET, 'HS256')}"}
        async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=30) as http:
            # Two clients at once: calls of the same user in parallel conversations, on both servers.
            await asyncio.gather(*(self._send_some(http, number) for number in range(2)))

    async def _send_some(self, http: httpx.AsyncClient, client: int) -> None:
        for number in range(client, MESSAGES, 2):
            amounts = [self.random.randrange(40, 240) for _ in range(2)]
            wanted = " ".join(f"{self.name}order{number}part{part}={amount}" for part, amount in enumerate(amounts))
            body = {"content": f"refund {wanted}"}
            keys = {"Idempotency-Key": uuid.uuid4().hex} if self.random.random() < 0.6 else {}
            if keys and self.random.random() < 0.3:
                first, second = await asyncio.gather(
                    *(self._ask(http, body, keys, urls) for urls in (self.urls, self.urls[::-1]))
                )
                assert first == second
            else:
                await self._ask(http, body, keys, self.urls)

    async def _ask(self, http: httpx.AsyncClient, body: Any, keys: dict[str, str], urls: Sequence[str]) -> dict[str, Any]:
        for attempt in range(1_000):
            try:
                response = await http.post(f"{urls[attempt % 2]}/api/chat", json=body, headers=keys)
            except httpx.TransportError:
                response = None
            if response is not None and response.status_code == 200:
                answer: dict[str, Any] = response.json()
                self.answered.append(answer)
                return answer
            assert response is None or response.status_code in REPEATED, response.text
            await asyncio.sleep(0.1 + 0.2 * self.random.random())
        raise AssertionError(f"{body} was not answered")


async def kill_again_and_again(
    replicas: Sequence[Replica], users: Sequence[User], chance: random.Random, killed: Counter[str]
) -> None:
    """Kill a worker, a parent or a whole replica after every few answers, and start again what has ended."""
    messages = len(users) * MESSAGES
    for number in range(KILLS):
        while sum(len(user.answered) for user in users) < messages * (number + 0.5) / KILLS:
            await asyncio.sleep(0.05)
            for replica in replicas:
                replica.restart_if_ended()
        replica, what = replicas[number % 2], ("worker", "replica", "parent")[number // 2]
        await asyncio.sleep(chance.random())
        if what == "replica":
            replica.kill()
        elif what == "parent":
            replica.signal(replica.pid, signal.SIGKILL)
        elif workers := replica.workers():
            replica.signal(chance.choice(workers), signal.SIGKILL)
        killed[what] += 1
    while True:
        await asyncio.sleep(0.2)
        for replica in replicas:
            replica.restart_if_ended()


async def close_and_settle(environment: dict[str, str]) -> None:
    """Do what the servers would do in the minutes after: close the turns of dead processes and settle lost outcomes."""
    settings = read_settings(environment)
    clock = ManualClock(datetime.now(UTC) + ABANDONED_AFTER + timedelta(minutes=1))
    async with open_runtime(settings, model="embedded", clock=clock) as runtime:
        # The sweeper compares times by the clock of the database.
        runtime.database.clock = clock
        await ChatService(runtime.engine, clock=clock).serve_due()
    async with open_runtime(settings, model="embedded") as runtime:
        settle = partial(settle_unknown, runtime.tools, runtime.database, clock=runtime.clock)
        while not all(use.settled for user in USERS for use in uses_of(runtime.database, user)):
            # It may have died.
            await runtime.tools.start()
            await settle()


def uses_of(database: Database, user: str) -> list[PastUse]:
    since = datetime.now(UTC) - timedelta(days=1)
    return database.read_now(lambda connection: find_uses(connection, user, since))


def installation(folder: Path, url: str, till_url: str) -> dict[str, str]:
    """Write the files of an installation; return its environment."""
    till = {"command": sys.executable, "args": [str(ROOT / "tests/chat/till_server.py"), till_url], "timeout": 60}
    files = {
        "constitution.md": CONSTITUTION,
        "policy.cedar": POLICY,
        "mcp.json": json.dumps({"mcpServers": {"till": {**till, "trusted": True, "env": {"PYTHONPATH": str(ROOT)}}}}),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {
        **os.environ,
        "DATABASE_URL": url,
        "GRAPH_AGENT_CONSTITUTION": str(folder / "constitution.md"),
        "GRAPH_AGENT_DATABASE_CONNECTIONS": "5",
        "GRAPH_AGENT_HOME": str(folder),
        "GRAPH_AGENT_JWT_AUDIENCE": AUDIENCE,
        "GRAPH_AGENT_JWT_SECRET": JWT_SECRET,
        "GRAPH_AGENT_MCP": str(folder / "mcp.json"),
        "GRAPH_AGENT_CONDITIONS": str(folder / "policy.cedar"),
        "GRAPH_AGENT_SECRET": "the secret of this test only",
        "GRAPH_AGENT_TIME_ZONE": noon_here(),
        "GRAPH_AGENT_TURNS_PER_MINUTE": "100000",
        "LOG_SIGNING_KEY": "the key of the log of this test only",
        "OPENAI_API_KEY": "x",
        "OPENAI_MODEL": OpenAIAPI.model,
    }


async def run_servers(folder: Path, environment: dict[str, str]) -> tuple[list[User], Counter[str]]:
    """Let all users send their messages to two servers that are killed meanwhile; return what they got and what was killed."""
    chance = random.Random(1)
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(model())
        ports = free_ports(2)
        replicas = [
            Replica(folder, number, port, {**environment, "OPENAI_BASE_URL": provider}, model="openai")
            for number, port in enumerate(ports)
        ]
        for replica in replicas:
            stack.callback(replica.kill)
            replica.start()
        for replica in replicas:
            await asyncio.to_thread(replica.wait_until_ready)
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        users = [User(name, urls[:: 1 if n % 2 else -1], random.Random(n)) for n, name in enumerate(USERS)]
        killed: Counter[str] = Counter()
        killing = asyncio.create_task(kill_again_and_again(replicas, users, chance, killed))
        await asyncio.gather(*(user.send_all() for user in users))
        killing.cancel()
        return users, killed


@pytest.fixture
def open_database() -> Iterator[Callable[[str], Database]]:
    """Return a function that opens a database until the test ends."""
    with ExitStack() as stack:

        def opened(url: str) -> Database:
            database = Database.open(url)
            stack.callback(database.close_now)
            return database

        yield opened


def test_a_budget_is_never_overspent_and_equals_the_effects(
    tmp_path: Path, fresh_postgresql_url: str, open_database: Callable[[str], Database]
) -> None:
    database, till_url = open_database(fresh_postgresql_url), f"{fresh_postgresql_url}_till"
    schema = till_url.rpartition("%3D")[2]
    database.write_now(lambda connection: connection.exec_driver_sql(f"CREATE SCHEMA {schema}").close())
    till = open_database(till_url)
    build_till(till)
    environment = installation(tmp_path, fresh_postgresql_url, till_url)
    users, killed = asyncio.run(run_servers(tmp_path, environment))
    asyncio.run(close_and_settle(environment))

    effects: dict[str, list[int]] = {user: [] for user in USERS}
    for user, amount in till.read_now(lambda connection: list(connection.execute(select(refunds.c.user_id, refunds.c.amount)))):
        effects[user].append(amount)
    assert {user: sum(amounts) for user, amounts in effects.items() if sum(amounts) > LIMIT} == {}
    counted = {user: sorted(int(use.amounts["amount"]) for use in uses_of(database, user)) for user in USERS}
    assert counted == {user: sorted(amounts) for user, amounts in effects.items()}
    left = "SELECT count(*) FROM call_operations WHERE state IN ('intended', 'unknown')"
    assert database.read_now(lambda connection: connection.exec_driver_sql(left).scalar()) == 0
    # The budget was really the limit, and all that was to be killed was killed.
    assert any(f"{LIMIT} a day" in notice for user in users for one in user.answered for notice in one["decision"]["notices"])
    assert sum(killed.values()) == KILLS

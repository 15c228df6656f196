"""Servers of which one is killed with SIGKILL at a commit, and clients that ask again until they are answered.

Everything is a process as in a deployment. On PostgreSQL there are two servers with two workers each, and deferred triggers of
the database hold one commit until its server is killed. SQLite has one server with one process, which kills itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any, Protocol

import httpx
import jwt
import psycopg

from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.chat.recovery import ABANDONED_AFTER
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.settings import read_settings
from tests.chat.crashing_server import ARMED
from tests.cluster.clients import AUDIENCE, JWT_SECRET
from tests.cluster.services import ROOT, Replica
from tests.serving import free_ports

_LOCK = 48
_WRITTEN = ("questions", "answers", "turns", "messages", "decision_logs", "record_entries", "call_operations", "tasks")
_TRIGGERS = f"""
CREATE SEQUENCE counted_commits;
CREATE TABLE held_commit (number int NOT NULL);
INSERT INTO held_commit VALUES (0);
CREATE FUNCTION hold_commit() RETURNS trigger AS $$
BEGIN
  IF current_setting('kill.counted', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
    PERFORM set_config('kill.counted', pg_current_xact_id()::text, true);
    IF nextval('counted_commits') = (SELECT number FROM held_commit) THEN PERFORM pg_advisory_xact_lock({_LOCK}); END IF;
  END IF;
  RETURN NULL;
END $$ LANGUAGE plpgsql;
"""
_TRIGGER = """CREATE CONSTRAINT TRIGGER hold_commit AFTER INSERT OR UPDATE ON {} DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION hold_commit()"""
_HELD = f"""SELECT pid, application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND objid = {_LOCK} AND NOT granted"""
_PAUSE_SECONDS = 0.02
_REPEATED = frozenset({"REQUEST_IN_PROGRESS", "CONVERSATION_BUSY"})
"""The codes after which a client asks again."""


@dataclass(frozen=True)
class Kill:
    """The commit at which a server is killed."""

    commit: int
    """Its number, counted from 1 since the servers were armed."""
    after: bool
    """True if the commit takes effect."""

    @property
    def name(self) -> str:
        return f"{self.commit}-{'after' if self.after else 'before'}"


class KilledServers(Protocol):
    """Servers on one database. `arm` them, send requests, and let `kill` wait for the commit."""

    replicas: Sequence[Replica]
    killed: Counter[str]
    """How often each of them was killed."""

    async def arm(self, kill: Kill) -> None:
        """Count the commits from now on, up to that one."""

    async def kill(self, is_over: Callable[[], Awaitable[bool]]) -> bool:
        """Kill the server that makes the commit, and start it again; False if all is over before so many commits."""


class PostgresqlServers(KilledServers):
    """Two servers, and a connection that holds their commits."""

    def __init__(self, replicas: Sequence[Replica], connection: psycopg.AsyncConnection[Any]) -> None:
        self.replicas, self.killed = replicas, Counter[str]()
        self._connection = connection
        self._armed = Kill(0, after=False)

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        return list(await (await self._connection.execute(query.encode())).fetchall())

    async def arm(self, kill: Kill) -> None:
        self._armed = kill
        await self._connection.execute(f"SELECT pg_advisory_lock({_LOCK}), setval('counted_commits', 1, false)".encode())
        await self._connection.execute(f"UPDATE held_commit SET number = {kill.commit}".encode())

    async def kill(self, is_over: Callable[[], Awaitable[bool]]) -> bool:
        try:
            return await self._kill(is_over)
        finally:
            await self._connection.execute(b"UPDATE held_commit SET number = 0")
            for replica in self.replicas:
                replica.restart_if_ended()

    async def _kill(self, is_over: Callable[[], Awaitable[bool]]) -> bool:
        try:
            while not (held := await self.rows(_HELD)):
                if await is_over():
                    return False
                await asyncio.sleep(_PAUSE_SECONDS)
            [(backend, name)] = held
            self.replicas[int(name)].kill()
            self.killed[name] += 1
            if not self._armed.after:
                await self._connection.execute(f"SELECT pg_terminate_backend({backend})".encode())
        finally:
            await self._connection.execute(f"SELECT pg_advisory_unlock({_LOCK})".encode())
        # The database commits, or rolls back, before it notices that nobody is there any more.
        while True:
            if not await self.rows(f"SELECT 1 FROM pg_stat_activity WHERE pid = {backend}"):
                return True
            await asyncio.sleep(_PAUSE_SECONDS)


class SqliteServer(KilledServers):
    """One server, which reads in a file at which commit it is to be killed."""

    def __init__(self, replica: Replica, armed: Path) -> None:
        self.replicas, self.killed = [replica], Counter[str]()
        self._armed = armed

    async def arm(self, kill: Kill) -> None:
        self._armed.write_text(f"{kill.commit} {'after' if kill.after else 'before'}", encoding="utf-8")

    async def kill(self, is_over: Callable[[], Awaitable[bool]]) -> bool:
        [replica] = self.replicas
        try:
            while not replica.has_ended():
                if await is_over():
                    return False
                await asyncio.sleep(_PAUSE_SECONDS)
            self.killed["0"] += 1
        finally:
            self._armed.unlink()
            replica.restart_if_ended()
        return True


@asynccontextmanager
async def postgresql_servers(folder: Path, url: str, settings: Mapping[str, str]) -> AsyncIterator[PostgresqlServers]:
    """Run the servers on the database at `url`, which knows them by their numbers."""
    async with AsyncExitStack() as stack:
        replicas = [
            Replica(folder, number, port, {**settings, "DATABASE_URL": f"{url}&application_name={number}"})
            for number, port in enumerate(free_ports(2))
        ]
        connection = await stack.enter_async_context(await psycopg.AsyncConnection.connect(url, autocommit=True))
        await connection.execute(_TRIGGERS.encode())
        for table in _WRITTEN:
            await connection.execute(_TRIGGER.format(table).encode())
        await _start(stack, replicas)
        yield PostgresqlServers(replicas, connection)


@asynccontextmanager
async def sqlite_server(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[SqliteServer]:
    """Run the server on the database of the settings."""
    async with AsyncExitStack() as stack:
        program, armed = [sys.executable, "-m", "tests.chat.crashing_server"], folder / "armed"
        [port] = free_ports(1)
        environment = {**settings, ARMED: str(armed), "PYTHONPATH": str(ROOT)}
        replica = Replica(folder, 0, port, environment, workers=1, program=program)
        await _start(stack, [replica])
        yield SqliteServer(replica, armed)


async def _start(stack: AsyncExitStack, replicas: Sequence[Replica]) -> None:
    for replica in replicas:
        stack.callback(replica.kill)
        replica.start()
    for replica in replicas:
        await asyncio.to_thread(replica.wait_until_ready)


def settings_of(folder: Path, url: str, **more: str) -> dict[str, str]:
    """Return the environment of the servers; `more` are further variables."""
    return {
        **os.environ,
        "DATABASE_URL": url,
        "GRAPH_AGENT_DATABASE_CONNECTIONS": "5",
        "GRAPH_AGENT_HOME": str(folder),
        "GRAPH_AGENT_JWT_AUDIENCE": AUDIENCE,
        "GRAPH_AGENT_JWT_SECRET": JWT_SECRET,
        "GRAPH_AGENT_SECRET": "the secret of this test only",
        "LOG_SIGNING_KEY": "the key of the log of this test only",
        **more,
    }


def url_of(replica: Replica) -> str:
    return f"http://127.0.0.1:{replica.port}"


def headers(user: str, *groups: str) -> dict[str, str]:
    claims = {"sub": user, "aud": AUDIENCE, "exp": int(time.time()) + 3600, "groups": list(groups)}
    return {"Authorization": f"Bearer {jwt.encode(claims, JWT_SECRET, 'HS256')}"}


async def posted(urls: Sequence[str], user: str, path: str, body: Any, *groups: str, key: str = "") -> dict[str, Any]:
    """Post until there is an answer, to the next server if one does not answer. `key` is that of the request."""
    servers = cycle(urls)
    url = next(servers)
    async with asyncio.timeout(240), httpx.AsyncClient(headers=headers(user, *groups), trust_env=False, timeout=30) as http:
        while True:
            try:
                response = await http.post(f"{url}{path}", json=body, headers={"Idempotency-Key": key or user})
            except httpx.TransportError:
                response, url = None, next(servers)
            if response is not None and response.status_code < 500:
                found: dict[str, Any] = response.json()
                if "error" not in found or found["error"]["code"] not in _REPEATED:
                    return found
            await asyncio.sleep(0.1)


@asynccontextmanager
async def open_later(settings: Mapping[str, str]) -> AsyncIterator[Runtime]:
    """Open a runtime some minutes later, and do what the servers would do meanwhile."""
    clock = ManualClock(datetime.now(UTC) + ABANDONED_AFTER + timedelta(minutes=1))
    async with open_runtime(read_settings(settings), model="embedded", clock=clock) as runtime:
        # The sweeper compares times by the clock of the database.
        runtime.database.clock = clock
        await ChatService(runtime.engine, clock=clock).serve_due()
        yield runtime

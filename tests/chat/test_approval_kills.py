"""Two servers with two workers each on one PostgreSQL, of which one is killed at a commit, while two approvers answer at both.

Everything is a process as in a deployment. Deferred triggers of the database hold one commit until its server is killed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import jwt
import psycopg
import pytest

from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.chat.recovery import ABANDONED_AFTER
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.models.approval import ApprovalState
from graph_agent.settings import read_settings
from tests.cluster.clients import AUDIENCE, JWT_SECRET
from tests.cluster.services import Replica
from tests.serving import free_ports

pytestmark = pytest.mark.postgresql

POLICY = """permit (principal, action, resource);
@id("additions need two people")
forbid (principal, action == Action::"add_task", resource)
unless { context.approvals.manager >= 1 && context.approvals.finance >= 1 };
"""
_LOCK = 48
_MAX_COMMITS = 40
"""An upper bound of the commits of the answers and of the decision that they close."""
_WRITTEN = ("approvals", "approval_answers", "turns", "messages", "decision_logs", "record_entries", "call_operations", "tasks")
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

_CLOSED = "SELECT 1 FROM approvals JOIN turns ON turns.id = closing_decision WHERE approvals.id = '{}' AND turns.state = 'done'"


@dataclass(frozen=True)
class Round:
    """One request, and the commit at which the server is killed that makes it."""

    commit: int
    after: bool
    """True if the commit takes effect."""
    approve: bool = True
    """False if the second approver denies."""

    @property
    def user(self) -> str:
        return f"{'approved' if self.approve else 'denied'}-{self.commit}-{'after' if self.after else 'before'}"


class Servers:
    """The two servers, and a connection that holds their commits."""

    def __init__(self, replicas: Sequence[Replica], connection: psycopg.AsyncConnection[Any]) -> None:
        self.replicas = replicas
        self.killed: Counter[str] = Counter()
        self._connection = connection

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        return list(await (await self._connection.execute(query.encode())).fetchall())

    async def play(self, one: Round) -> bool:
        """Ask for a call, let both approvers answer, kill a server meanwhile; return True if one was killed."""
        first, second = (f"http://127.0.0.1:{replica.port}" for replica in self.replicas)
        asked = await posted(first, one.user, "/api/chat", {"content": "add a task to buy bread"})
        request_id = asked["decision"]["approval"]["action"]["id"]
        await self._connection.execute(f"SELECT pg_advisory_lock({_LOCK}), setval('counted_commits', 1, false)".encode())
        await self._connection.execute(f"UPDATE held_commit SET number = {one.commit}".encode())
        answers = asyncio.gather(
            answered(first, "bob", "manager", request_id, approve=True),
            answered(second, "eve", "finance", request_id, approve=one.approve),
        )
        try:
            return await self._kill(one, request_id)
        finally:
            await self._connection.execute(b"UPDATE held_commit SET number = 0")
            for replica in self.replicas:
                replica.restart_if_ended()
            await answers

    async def _kill(self, one: Round, request_id: str) -> bool:
        """Kill the server whose commit is held; False if there are not so many commits."""
        try:
            while not (held := await self.rows(_HELD)):
                if await self.rows(_CLOSED.format(request_id)):
                    return False
                await asyncio.sleep(0.02)
            [(backend, name)] = held
            self.replicas[int(name)].kill()
            self.killed[name] += 1
            if not one.after:
                await self._connection.execute(f"SELECT pg_terminate_backend({backend})".encode())
        finally:
            await self._connection.execute(f"SELECT pg_advisory_unlock({_LOCK})".encode())
        return True


def headers(user: str, *groups: str) -> dict[str, str]:
    claims = {"sub": user, "aud": AUDIENCE, "exp": int(time.time()) + 3600, "groups": list(groups)}
    return {"Authorization": f"Bearer {jwt.encode(claims, JWT_SECRET, 'HS256')}"}


async def posted(url: str, user: str, path: str, body: Any, *groups: str) -> dict[str, Any]:
    """Post until there is an answer: the server may be killed, and starts again."""
    async with asyncio.timeout(240), httpx.AsyncClient(headers=headers(user, *groups), trust_env=False, timeout=30) as http:
        while True:
            try:
                response = await http.post(f"{url}{path}", json=body, headers={"Idempotency-Key": user})
            except httpx.TransportError:
                response = None
            if response is not None and response.status_code < 500:
                found: dict[str, Any] = response.json()
                code = "" if response.status_code == 200 else found["error"]["code"]
                assert code in {"", "APPROVAL_CLOSED", "REQUEST_IN_PROGRESS"}, response.text
                if code != "REQUEST_IN_PROGRESS":
                    return found
            await asyncio.sleep(0.1)


async def answered(url: str, approver: str, role: str, request_id: str, *, approve: bool) -> None:
    """Read the request at one server, and answer there."""
    path, digest = f"/api/approvals/{request_id}", ""
    async with asyncio.timeout(240), httpx.AsyncClient(headers=headers(approver, role), trust_env=False, timeout=30) as http:
        while not digest:
            try:
                response = await http.get(f"{url}{path}")
                digest = response.json()["digest"] if response.status_code == 200 else ""
            except httpx.TransportError:
                await asyncio.sleep(0.1)
    body = {"approve": approve, "digest": digest, "reason": "" if approve else "too much bread"}
    await posted(url, approver, f"{path}/answer", body, role)


@asynccontextmanager
async def two_servers(folder: Path, url: str) -> AsyncIterator[Servers]:
    """Run the servers on the database at `url`, which knows them by their numbers."""
    (folder / "policy.cedar").write_text(POLICY, encoding="utf-8")
    async with AsyncExitStack() as stack:
        replicas = [
            Replica(folder, number, port, environment(folder, f"{url}&application_name={number}"))
            for number, port in enumerate(free_ports(2))
        ]
        connection = await stack.enter_async_context(await psycopg.AsyncConnection.connect(url, autocommit=True))
        await connection.execute(_TRIGGERS.encode())
        for table in _WRITTEN:
            await connection.execute(_TRIGGER.format(table).encode())
        for replica in replicas:
            stack.callback(replica.kill)
            replica.start()
        for replica in replicas:
            await asyncio.to_thread(replica.wait_until_ready)
        yield Servers(replicas, connection)


def environment(folder: Path, url: str) -> dict[str, str]:
    return {
        **os.environ,
        "DATABASE_URL": url,
        "GRAPH_AGENT_DATABASE_CONNECTIONS": "5",
        "GRAPH_AGENT_HOME": str(folder),
        "GRAPH_AGENT_JWT_AUDIENCE": AUDIENCE,
        "GRAPH_AGENT_JWT_SECRET": JWT_SECRET,
        "GRAPH_AGENT_POLICY": str(folder / "policy.cedar"),
        "GRAPH_AGENT_ROLES": "groups=finance,manager",
        "GRAPH_AGENT_SECRET": "the secret of this test only",
        "LOG_SIGNING_KEY": "the key of the log of this test only",
    }


async def sweep(folder: Path, url: str) -> None:
    """Do what the servers would do in the minutes after."""
    clock = ManualClock(datetime.now(UTC) + ABANDONED_AFTER + timedelta(minutes=1))
    async with open_runtime(read_settings(environment(folder, url)), model="embedded", clock=clock) as runtime:
        # The sweeper compares times by the clock of the database.
        runtime.database.clock = clock
        await ChatService(runtime.engine, clock=clock).sweep()


async def check(servers: Servers, played: Sequence[Round]) -> None:
    """Each approved effect was made once, and each request has one closing message and nothing left open."""
    tasks = Counter([user for (user,) in await servers.rows("SELECT user_id FROM tasks")])
    assert tasks == Counter(one.user for one in played if one.approve)
    ends = dict(await servers.rows("SELECT user_id, state FROM approvals"))
    assert ends == {one.user: ApprovalState.APPROVED if one.approve else ApprovalState.DENIED for one in played}
    query = (
        "SELECT user_id, role, content FROM messages JOIN conversations ON conversations.id = conversation_id ORDER BY number"
    )
    said = await servers.rows(query)
    for one in played:
        own = [(role, content) for user, role, content in said if user == one.user]
        assert [role for role, _ in own] == ["user", "assistant"] * 2, own
        assert ("Done: added 'buy bread'." if one.approve else "Denied by 'eve'") in own[-1][1]
    assert await servers.rows("SELECT id FROM turns WHERE state <> 'done'") == []
    assert await servers.rows("SELECT operation_key FROM call_operations WHERE state IN ('intended', 'unknown')") == []


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param([Round(2, after=True), Round(5, after=False)], id="two", marks=pytest.mark.slow),
        pytest.param(
            [
                *(Round(n, after=after, approve=False) for n in range(1, 4) for after in (False, True)),
                *(Round(n, after=after) for n in range(1, _MAX_COMMITS) for after in (False, True)),
            ],
            id="every commit",
            marks=pytest.mark.nightly,
        ),
    ],
)
async def test_each_approved_effect_is_made_once_whichever_server_is_killed_at_whichever_commit(
    tmp_path: Path, migrated_postgresql_url: str, rounds: Sequence[Round]
) -> None:
    played: list[Round] = []
    async with two_servers(tmp_path, migrated_postgresql_url) as servers:
        for one in rounds:
            played.append(one)
            if not await servers.play(one) and one.approve:
                # It has fewer commits. A denial ends a request after one or two answers, so their number differs.
                break
        for replica in servers.replicas:
            replica.kill()
        await sweep(tmp_path, migrated_postgresql_url)
        await check(servers, played)
        assert servers.killed.total() >= min(len(rounds), 10)

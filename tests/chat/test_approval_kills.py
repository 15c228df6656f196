"""Two servers of which one is killed at a commit, while two approvers answer at both."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from graph_agent.models.approval import ApprovalState
from tests.chat.killed_servers import (
    Kill,
    PostgresqlServers,
    headers,
    open_later,
    posted,
    postgresql_servers,
    settings_of,
    url_of,
)

pytestmark = pytest.mark.postgresql

POLICY = """permit (principal, action, resource);
@id("additions need two people")
forbid (principal, action == Action::"add_task", resource)
unless { context.approvals.manager >= 1 && context.approvals.finance >= 1 };
"""
_MAX_COMMITS = 40
"""An upper bound of the commits of the answers and of the decision that they close."""
_CLOSED = "SELECT 1 FROM questions JOIN turns ON turns.id = closed_by WHERE questions.id = '{}' AND turns.state = 'done'"


@dataclass(frozen=True)
class Round(Kill):
    """One request, and the commit at which the server is killed that makes it."""

    approve: bool = True
    """False if the second approver denies."""

    @property
    def user(self) -> str:
        return f"{'approved' if self.approve else 'denied'}-{self.name}"


async def play(servers: PostgresqlServers, one: Round) -> bool:
    """Ask for a call, let both approvers answer, kill a server meanwhile; return True if one was killed."""
    first, second = map(url_of, servers.replicas)
    asked = await posted([first], one.user, "/api/chat", {"content": "add a task to buy bread"})
    request_id = asked["decision"]["approval"]["action"]["id"]

    async def is_closed() -> bool:
        return bool(await servers.rows(_CLOSED.format(request_id)))

    await servers.arm(one)
    answers = asyncio.gather(
        answered(first, "bob", "manager", request_id, approve=True),
        answered(second, "eve", "finance", request_id, approve=one.approve),
    )
    try:
        return await servers.kill(is_closed)
    finally:
        await answers


async def answered(url: str, approver: str, role: str, request_id: str, *, approve: bool) -> None:
    """Read the request at one server, and answer there."""
    path, digest = f"/api/questions/{request_id}", ""
    async with asyncio.timeout(240), httpx.AsyncClient(headers=headers(approver, role), trust_env=False, timeout=30) as http:
        while not digest:
            try:
                response = await http.get(f"{url}{path}")
                digest = response.json()["digest"] if response.status_code == 200 else ""
            except httpx.TransportError:
                await asyncio.sleep(0.1)
    body = {"yes": approve, "digest": digest, "reason": "" if approve else "too much bread"}
    answer = await posted([url], approver, f"{path}/answer", body, role)
    assert answer.get("error", {"code": "QUESTION_CLOSED"})["code"] == "QUESTION_CLOSED", answer


async def check(servers: PostgresqlServers, played: Sequence[Round]) -> None:
    """Each approved effect was made once, and each request has one closing message and nothing left open."""
    tasks = Counter([user for (user,) in await servers.rows("SELECT user_id FROM tasks")])
    assert tasks == Counter(one.user for one in played if one.approve)
    ends = dict(await servers.rows("SELECT user_id, state FROM questions"))
    assert ends == {one.user: ApprovalState.APPROVED if one.approve else ApprovalState.DENIED for one in played}
    query = (
        "SELECT user_id, role, content FROM messages JOIN conversations ON conversations.id = conversation_id ORDER BY number"
    )
    said = await servers.rows(query)
    for one in played:
        own = [(role, content) for user, role, content in said if user == one.user]
        assert [role for role, _ in own] == ["user", "assistant"] * 2, own
        assert ("Done: Add task 'buy bread'." if one.approve else "Denied by 'eve'") in own[-1][1]
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
    policy = tmp_path / "policy.cedar"
    policy.write_text(POLICY, encoding="utf-8")
    more = {"GRAPH_AGENT_CONDITIONS": str(policy), "GRAPH_AGENT_ROLES": "groups=finance,manager"}
    settings = settings_of(tmp_path, migrated_postgresql_url, **more)
    async with postgresql_servers(tmp_path, migrated_postgresql_url, settings) as servers:
        for one in rounds:
            played.append(one)
            if not await play(servers, one) and one.approve:
                # It has fewer commits. A denial ends a request after one or two answers, so their number differs.
                break
        for replica in servers.replicas:
            replica.kill()
        async with open_later(settings):
            await check(servers, played)
        assert servers.killed.total() >= min(len(rounds), 10)

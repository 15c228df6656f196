"""Conditions over HTTP: roles come from a configured claim, and reads for display follow the rules too."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from pydantic import SecretStr

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.policy.cedar.conditions import ConditionsFile
from tests.api.test_record import SECRET, headers
from tests.chat.environment import Environment

Served = Callable[[Runtime], httpx.AsyncClient]

RULES = """@id("base") permit (principal, action, resource);
@id("adding is for support") forbid (principal, action == Action::"add_task", resource)
unless { principal in Role::"support" };
@id("lists are for support, by day") forbid (principal, action == Action::"list_tasks", resource)
unless { principal in Role::"support" && context.time.hour < 24 };"""


@pytest.fixture
def client(environment: Environment, served: Served) -> httpx.AsyncClient:
    settings = {
        "jwt_secret": SecretStr(SECRET),
        "jwt_audience": "graph-agent",
        "roles": "roles=support,manager",
        "secret": SecretStr("signs confirmations, and is long enough"),
    }
    conditions = ConditionsFile(RULES, roles=("support", "manager"))
    return served(environment.runtime(settings=settings, conditions=conditions))


@pytest.mark.parametrize(
    ("role", "claims", "allowed"),
    [("support", {}, True), ("manager", {}, False), (None, {}, False), (None, {"scope": "support"}, False)],
)
async def test_the_roles_of_a_configured_claim_decide(
    client: httpx.AsyncClient, role: str | None, claims: dict[str, str], allowed: bool
) -> None:
    token = headers("ann", role, **claims)
    answer = await client.post("/api/chat", json={"content": "add a task to call mom"}, headers=token)
    decision = answer.json()["decision"]
    assert decision["effects"] == (["Add task 'call mom'"] if allowed else [])
    refused = ["Not done: add task 'call mom'. Adding is for support."]
    assert decision.get("notices", []) == ([] if allowed else refused)
    assert (await client.get("/api/constitution", headers=token)).json()["conditions"] == RULES
    shown = await client.get("/api/tasks", headers=token)
    assert shown.status_code == (200 if allowed else 403)
    (*_, listed) = (await client.get("/api/decisions", headers=token)).json()["items"]
    said = (listed["tools"], listed["changed"], listed["refused_by"])
    assert said == (["add_task"], allowed, None if allowed else "adding is for support")


@pytest.mark.parametrize(("title", "status"), [("call mom", 200), ("a secret", 403)])
async def test_the_list_of_tasks_is_judged_with_the_facts_that_its_rules_name(
    environment: Environment, served: Served, title: str, status: int
) -> None:
    rules = """- known: list_tasks(status = arguments.status) $.tasks[*].description
    @id("base") permit (principal, action, resource);
    @id("no secrets") forbid (principal, action == Action::"list_tasks", resource)
    unless { context.result has known && !context.result.known.contains("a secret") };"""
    client = served(environment.runtime(conditions=ConditionsFile(rules)))
    await client.post("/api/chat", json={"content": f"add a task to {title}"})
    shown = await client.get("/api/tasks")
    assert shown.status_code == status
    if status == 200:
        assert [task["description"] for task in shown.json()["items"]] == [title]

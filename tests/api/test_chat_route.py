"""POST /api/chat, and the routes that read what it stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from graph_agent.api.app import create_app
from graph_agent.api.turn_admission import MAX_OPEN_TURNS
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.leases import LEASE
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import AgentDecision
from graph_agent.models.llm import LLMErrorCode, LLMResponse
from graph_agent.reply.fixed import FAILURE_REPLY, RATE_LIMIT_REPLY
from graph_agent.testing import calls, says
from tests.chat.environment import Environment, GatedModel, LosingModel
from tests.frozen_clock import pass_time

Served = Callable[[Runtime], httpx.AsyncClient]


async def _say(client: httpx.AsyncClient, content: str, **more: str) -> dict[str, Any]:
    answer = await client.post("/api/chat", json={"content": content, **more})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_the_local_user_has_the_roles_of_the_server(environment: Environment) -> None:
    app = create_app(environment.runtime(), local_roles=["manager"])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        body = await _say(client, "add a task to call mom")
    record = await environment.engines[0].audit.load(body["decision_id"])
    assert record is not None
    assert record.header.context.roles == ("manager",)


async def test_a_message_gets_its_reply_with_the_decision_behind_it(
    environment: Environment, client: httpx.AsyncClient
) -> None:
    body = await _say(client, "add a task to call mom")
    assert set(body) == {"conversation_id", "message_id", "decision_id", "reply", "decision"}
    decision = AgentDecision.model_validate(body["decision"])
    assert (decision.decision_type, decision.outcome_category) == ("INVOKE_TOOL", "SUCCESS:TASK_COMPLETED")
    assert (decision.decision_id, decision.reply) == (body["decision_id"], body["reply"])
    assert await environment.descriptions("local") == ["call mom"]


async def test_messages_and_decisions_can_be_read(client: httpx.AsyncClient) -> None:
    body = await _say(client, "add a task to call mom")
    listed = (await client.get("/api/conversations")).json()
    assert [one["id"] for one in listed["conversations"]] == [body["conversation_id"]]
    shown = (await client.get(f"/api/conversations/{body['conversation_id']}")).json()
    assert [(one["role"], one["content"], one["effects"]) for one in shown["messages"]] == [
        ("user", "add a task to call mom", []),
        ("assistant", body["reply"], ["Add task 'call mom'"]),
    ]
    assert shown["messages"][1]["id"] == body["message_id"]
    logged = (await client.get(f"/api/decisions/{body['decision_id']}")).json()
    assert (logged["decision_type"], logged["outcome_category"], logged["status"]) == (
        "INVOKE_TOOL",
        "SUCCESS:TASK_COMPLETED",
        "completed",
    )
    assert [call["tool_name"] for call in logged["tool_invocations"]] == ["add_task"]
    assert len(logged["llm_calls"]) == 2


async def test_a_failed_model_is_answered_with_200(environment: Environment, served: Served) -> None:
    model = ScriptedAdapter([LLMResponse(finish_reason="error", error=LLMErrorCode.UNAVAILABLE)])
    body = await _say(served(environment.runtime(model)), "hello")
    assert body["reply"] == FAILURE_REPLY
    assert AgentDecision.model_validate(body["decision"]).outcome_category == "ERROR:RESPONSE_GENERATION"


async def test_a_key_makes_a_request_repeatable(environment: Environment, client: httpx.AsyncClient) -> None:
    keyed = {"Idempotency-Key": "7f3c"}
    first = await client.post("/api/chat", json={"content": "add milk"}, headers=keyed)
    again = await client.post("/api/chat", content=b'{ "content" : "add\\u0020milk" }', headers={**keyed, **_JSON})
    assert (again.status_code, again.content) == (200, first.content)
    other = await client.post("/api/chat", json={"content": "add eggs"}, headers=keyed)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert await environment.descriptions("local") == ["milk"]


async def test_a_request_that_is_still_running_is_a_conflict(environment: Environment, served: Served) -> None:
    model = GatedModel([says("hello")])
    client = served(environment.runtime(model))
    running = asyncio.create_task(client.post("/api/chat", json={"content": "hi"}, headers={"Idempotency-Key": "k"}))
    await model.asked.acquire()
    again = await client.post("/api/chat", json={"content": "hi"}, headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "REQUEST_IN_PROGRESS")
    assert again.headers["retry-after"] == "1"
    model.gate.set()
    assert (await running).status_code == 200


async def test_a_rate_limited_turn_gets_retry_after_and_is_logged(environment: Environment, served: Served) -> None:
    client = served(environment.runtime(ScriptedAdapter([says("hi")]), turns_per_minute=1))
    await _say(client, "hello")
    for n in range(3):
        # The address a proxy claims is no way round it.
        refused = await client.post("/api/chat", json={"content": "again"}, headers={"X-Forwarded-For": f"10.0.0.{n}"})
        assert (refused.status_code, refused.json()["error"]) == (429, {"code": "RATE_LIMITED", "message": RATE_LIMIT_REPLY})
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert [outcome for _, outcome, _ in await environment.decisions()] == ["SUCCESS:RESPONSE_GIVEN"] + [
        "REFUSAL:RATE_LIMITED"
    ] * 3


async def test_without_the_database_nothing_is_called(environment: Environment, served: Served, tmp_path: Path) -> None:
    gone = Database.open(f"sqlite:///{tmp_path}/gone.db")
    gone.close_now()
    model = ScriptedAdapter([])
    client = served(environment.runtime(model, database=gone))
    for content in ("hello", " "):
        refused = await client.post("/api/chat", json={"content": content})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert int(refused.headers["retry-after"]) >= 1
    assert model.requests == []
    assert await environment.turns() == []


async def test_a_turn_above_the_admission_limit_is_refused_at_once(environment: Environment) -> None:
    app = create_app(environment.runtime(GatedModel([says("hi")])))
    app.state.services.turn_admission.open.total = MAX_OPEN_TURNS
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        refused = await client.post("/api/chat", json={"content": "hello"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert await environment.turns() == []


_JSON = {"Content-Type": "application/json"}


async def test_an_unknown_outcome_is_a_504_with_the_decision_that_the_same_key_continues(
    environment: Environment, served: Served
) -> None:
    clock = ManualClock()
    environment.use_clock(clock)
    lost = environment.open_database(Database)
    model = LosingModel([calls("add_task", description="milk"), says("Added.")], lost)
    keyed = {"Idempotency-Key": "k"}
    client = served(environment.runtime(model, database=lost))
    unknown = await pass_time(clock, client.post("/api/chat", json={"content": "add milk"}, headers=keyed))
    error = unknown.json()["error"]
    assert (unknown.status_code, error["code"], unknown.headers["retry-after"]) == (504, "OUTCOME_UNKNOWN", "1")
    assert "ask again with the same key" in error["message"]
    clock.advance(seconds=LEASE.total_seconds())
    again = await served(environment.runtime(ScriptedAdapter([says("Added.")]))).post(
        "/api/chat", json={"content": "add milk"}, headers=keyed
    )
    assert (again.status_code, again.json()["decision_id"]) == (200, error["decision_id"])
    assert await environment.descriptions("local") == ["milk"]

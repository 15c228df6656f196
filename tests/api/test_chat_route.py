"""POST /api/chat and what can be read afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.db import Database
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import AgentDecision
from graph_agent.models.llm import LLMErrorCode, LLMResponse
from graph_agent.reply.fixed import FAILURE_REPLY, RATE_LIMIT_REPLY
from tests.chat.world import GatedModel, World, says

Served = Callable[[Runtime], httpx.AsyncClient]


async def _say(client: httpx.AsyncClient, content: str, **more: str) -> dict[str, object]:
    answer = await client.post("/api/chat", json={"content": content, **more})
    assert answer.status_code == 200, answer.text
    told: dict[str, object] = answer.json()
    return told


async def test_a_message_gets_its_reply_with_the_decision_behind_it(world: World, client: httpx.AsyncClient) -> None:
    told = await _say(client, "add a task to call mom")
    assert set(told) == {"conversation_id", "message_id", "decision_id", "reply", "decision"}
    decision = AgentDecision.model_validate(told["decision"])
    assert (decision.decision_type, decision.outcome_category) == ("INVOKE_TOOL", "SUCCESS:TASK_COMPLETED")
    assert (decision.decision_id, decision.reply) == (told["decision_id"], told["reply"])
    assert await world.descriptions("local") == ["call mom"]


async def test_what_was_said_and_decided_can_be_read(client: httpx.AsyncClient) -> None:
    told = await _say(client, "add a task to call mom")
    listed = (await client.get("/api/conversations")).json()
    assert [one["id"] for one in listed["conversations"]] == [told["conversation_id"]]
    shown = (await client.get(f"/api/conversations/{told['conversation_id']}")).json()
    assert [(one["role"], one["content"], one["effects"]) for one in shown["messages"]] == [
        ("user", "add a task to call mom", []),
        ("assistant", told["reply"], ["added 'call mom'"]),
    ]
    assert shown["messages"][1]["id"] == told["message_id"]
    logged = (await client.get(f"/api/decisions/{told['decision_id']}")).json()
    assert (logged["decision_type"], logged["outcome_category"], logged["status"]) == (
        "INVOKE_TOOL",
        "SUCCESS:TASK_COMPLETED",
        "completed",
    )
    assert [call["tool_name"] for call in logged["tool_invocations"]] == ["add_task"]
    assert len(logged["llm_calls"]) == 2


async def test_a_deletion_asks_and_the_answer_is_obeyed_once(world: World, client: httpx.AsyncClient) -> None:
    conversation = str((await _say(client, "add milk"))["conversation_id"])
    asked = await _say(client, "delete the milk task", conversation_id=conversation)
    waiting = (await client.get(f"/api/conversations/{conversation}")).json()["pending_action"]
    assert AgentDecision.model_validate(asked["decision"]).pending_action is not None
    assert waiting == AgentDecision.model_validate(asked["decision"]).pending_action.to_json()  # type: ignore[union-attr]  # said above
    done = await _say(client, "yes", conversation_id=conversation)
    assert AgentDecision.model_validate(done["decision"]).decision_type == "EXECUTE_PENDING"
    assert await world.descriptions("local") == []


async def test_a_model_that_fails_is_an_answer(world: World, served: Served) -> None:
    model = ScriptedAdapter([LLMResponse(finish_reason="error", error=LLMErrorCode.UNAVAILABLE)])
    told = await _say(served(world.runtime(model)), "hello")
    assert told["reply"] == FAILURE_REPLY
    assert AgentDecision.model_validate(told["decision"]).outcome_category == "ERROR:RESPONSE_GENERATION"


async def test_a_key_makes_a_request_repeatable(world: World, client: httpx.AsyncClient) -> None:
    keyed = {"Idempotency-Key": "7f3c"}
    first = await client.post("/api/chat", json={"content": "add milk"}, headers=keyed)
    again = await client.post("/api/chat", content=b'{ "content" : "add\\u0020milk" }', headers={**keyed, **_JSON})
    assert (again.status_code, again.content) == (200, first.content)
    other = await client.post("/api/chat", json={"content": "add eggs"}, headers=keyed)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert await world.descriptions("local") == ["milk"]


async def test_a_request_that_is_still_running_is_a_conflict(world: World, served: Served) -> None:
    model = GatedModel([says("hello")])
    client = served(world.runtime(model))
    running = asyncio.create_task(client.post("/api/chat", json={"content": "hi"}, headers={"Idempotency-Key": "k"}))
    await model.asked.acquire()
    again = await client.post("/api/chat", json={"content": "hi"}, headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "REQUEST_IN_PROGRESS")
    assert again.headers["retry-after"] == "1"
    model.gate.set()
    assert (await running).status_code == 200


async def test_one_turn_too_many_says_when_to_come_back_and_is_logged(world: World, served: Served) -> None:
    client = served(world.runtime(ScriptedAdapter([says("hi")]), turns_per_minute=1))
    await _say(client, "hello")
    for n in range(3):
        # The address a proxy claims is no way round it.
        refused = await client.post("/api/chat", json={"content": "again"}, headers={"X-Forwarded-For": f"10.0.0.{n}"})
        assert (refused.status_code, refused.json()["error"]) == (429, {"code": "RATE_LIMITED", "message": RATE_LIMIT_REPLY})
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert [outcome for _, outcome, _ in await world.decisions()] == ["SUCCESS:RESPONSE_GIVEN"] + ["REFUSAL:RATE_LIMITED"] * 3


async def test_without_the_log_database_nothing_is_called(world: World, served: Served, tmp_path: Path) -> None:
    gone = Database.open(f"sqlite:///{tmp_path}/gone.db")
    gone.close_now()
    model = ScriptedAdapter([])
    client = served(world.runtime(model, log=gone))
    for content in ("hello", " "):
        refused = await client.post("/api/chat", json={"content": content})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert int(refused.headers["retry-after"]) >= 1
    assert model.requests == []
    assert await world.turns() == []
    assert (await client.get("/api/conversations")).json()["conversations"] == []


async def test_what_no_room_is_left_for_is_turned_away_at_once(world: World, served: Served) -> None:
    runtime = world.runtime(GatedModel([says("hi")]))
    client = served(runtime)
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    transport.app.state.admission._free = 0  # type: ignore[attr-defined]  # it is the FastAPI application
    refused = await client.post("/api/chat", json={"content": "hello"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert await world.turns() == []


_JSON = {"Content-Type": "application/json"}

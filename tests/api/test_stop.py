"""POST /api/decisions/{id}/stop: a user ends a turn of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.testing import says
from tests.api.test_record import said
from tests.chat.environment import Environment, GatedModel

UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def begin(client: httpx.AsyncClient, model: GatedModel) -> tuple[asyncio.Task[httpx.Response], str]:
    """Send a message, wait until the model is asked, and return the request and its decision's id."""
    turn = asyncio.create_task(client.post("/api/chat", json={"content": "hello"}))
    await model.asked.acquire()
    [running] = (await client.get("/api/decisions")).json()["items"]
    return turn, running["decision_id"]


async def test_a_stopped_turn_ends_as_interrupted_and_is_answered(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    model = GatedModel([says("too late")])
    async with served(environment.runtime(model)) as client:
        turn, decision = await begin(client, model)
        assert (await client.post(f"/api/decisions/{decision}/stop")).status_code == 204
        answer = await turn
        assert answer.json()["decision"]["outcome_category"] == "ERROR:RESPONSE_GENERATION"
        detail = (await client.get(f"/api/decisions/{decision}")).json()
        assert detail["status"] == "interrupted"
        assert detail["findings"][0].startswith("The turn was cancelled: the user stopped it")


async def test_a_turn_that_has_ended_is_left_as_it_is(client: httpx.AsyncClient) -> None:
    decision = await said(client, "hello")
    before = (await client.get(f"/api/decisions/{decision}")).json()
    assert (await client.post(f"/api/decisions/{decision}/stop")).status_code == 204
    assert (await client.get(f"/api/decisions/{decision}")).json() == before


async def test_a_turn_of_another_process_is_stopped_too(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient], client: httpx.AsyncClient
) -> None:
    model = GatedModel([says("too late")])
    async with served(environment.runtime(model)) as other:
        turn, decision = await begin(other, model)
        assert (await client.post(f"/api/decisions/{decision}/stop")).status_code == 204
        assert (await turn).json()["decision"]["outcome_category"] == "ERROR:RESPONSE_GENERATION"
    assert (await client.post(f"/api/decisions/{UNKNOWN}/stop")).status_code == 404

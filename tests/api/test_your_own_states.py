"""A graph with a replaced edge behind the chat service and the API."""

from __future__ import annotations

from dataclasses import replace

import httpx

from graph_agent.api.app import create_app
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import OutcomeCategory
from tests.chat.environment import Environment
from tests.graph.test_your_own_states import CAPPED, one_round
from tests.scripted_turns import calls

SCRIPT = [calls(("add_task", {"description": "call mom"}))] * 5


async def test_a_replaced_edge_is_obeyed_by_chat_and_api(environment: Environment) -> None:
    runtime = environment.runtime(ScriptedAdapter(SCRIPT), graph=one_round())
    answer = await runtime.chat.send("local", "add a task")
    assert answer.states == CAPPED
    assert answer.decision.outcome_category is OutcomeCategory.RESPONSE_GENERATION

    app = create_app(replace(environment.runtime(ScriptedAdapter(SCRIPT), graph=one_round()), build_graph=one_round))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        replied = (await client.post("/api/chat", json={"content": "add a task"})).json()
        shown = (await client.get(f"/api/decisions/{replied['decision_id']}")).json()
        edges = (await client.get("/api/topology")).json()["edges"]
    assert shown["states"] == CAPPED
    assert {"source": "CHECK_ITERATIONS", "outcome": "below_cap", "target": "TIMEOUT_RESPONSE"} in edges

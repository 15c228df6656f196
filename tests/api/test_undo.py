"""The undo of decisions over HTTP: what can be undone, the question, and a status for each refusal."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.testing import OrderDesk, says
from tests.chat.environment import Environment
from tests.desk import UNDOABLE, street
from tests.scripted_turns import calls

SCRIPT = [calls(("set_address", {"order_id": "W1", "address": "Birch 9"})), says("Done.")]


@pytest.fixture
def desk() -> OrderDesk:
    return OrderDesk()


@pytest.fixture
def http(environment: Environment, desk: OrderDesk, served: Callable[..., httpx.AsyncClient]) -> httpx.AsyncClient:
    return served(environment.runtime(ScriptedAdapter(SCRIPT), tools=desk, constitution=UNDOABLE))


async def changed(http: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await http.post("/api/chat", json={"content": "please"})).json()
    return found


async def test_a_change_is_undone_over_http(http: httpx.AsyncClient, desk: OrderDesk) -> None:
    made = await changed(http)
    path = f"/api/decisions/{made['decision_id']}/undo"
    state = (await http.get(path)).json()
    assert ([one["sequence"] for one in state["calls"]], state["problem"]) == ([1], None)
    assert state["until"] == state["calls"][0]["until"]
    asked = await http.post(path, headers={"Idempotency-Key": "k"})
    assert asked.status_code == 200, asked.text
    pending = asked.json()["decision"]["pending_action"]
    assert pending["undoes"]["decision_id"] == made["decision_id"]
    assert asked.json()["conversation_id"] == made["conversation_id"]
    assert (await http.post(path, headers={"Idempotency-Key": "k"})).json() == asked.json()

    undone = (await http.post("/api/chat", json={"answers": {"pending_action": pending["id"], "yes": True}})).json()
    assert street(desk) == "Elm 1"
    refused = await http.post(path)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "NOT_UNDOABLE")
    assert refused.json()["error"]["message"].endswith(f"(decision {undone['decision_id']} has undone it already).")
    state = (await http.get(path)).json()
    assert (state["calls"], state["until"], state["problem"]) == ([], None, refused.json()["error"]["message"])
    shown = (await http.get(f"/api/decisions/{made['decision_id']}")).json()
    assert shown["undone_by"] == {"1": undone["decision_id"]}


@pytest.mark.parametrize(("given", "status"), [(str(uuid.UUID(int=7)), 404), ("nothing", 400)])
async def test_a_decision_that_is_not_the_callers_is_not_found(http: httpx.AsyncClient, given: str, status: int) -> None:
    for request in (http.get, http.post):
        assert (await request(f"/api/decisions/{given}/undo")).status_code == status

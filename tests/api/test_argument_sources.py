"""The sources of the arguments of recorded calls: over HTTP and in the file of a proof, also where no rule has read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.record import DecisionRecord, EntryKind
from graph_agent.replays.argument_sources import argument_sources
from graph_agent.replays.sources import load_from_log
from graph_agent.testing import says
from tests.chat.environment import Environment
from tests.scripted_turns import calls

Served = Callable[[Runtime], httpx.AsyncClient]


async def test_a_decision_shows_the_sources_of_each_argument_on_demand(environment: Environment, served: Served) -> None:
    script = [
        calls(("add_task", {"description": "call mom"})),
        says("Added."),
        calls(("list_tasks", {"status": "all"})),
        calls(("add_task", {"description": "call mom"}), ("update_task", {"task_id": 7, "description": "rest"})),
        says("Done."),
    ]
    runtime = environment.runtime(ScriptedAdapter(script))
    client = served(runtime)
    first = (await client.post("/api/chat", json={"content": "add a task to call mom"})).json()
    asked = {"content": "and what is like it", "conversation_id": first["conversation_id"]}
    second = (await client.post("/api/chat", json=asked)).json()["decision_id"]

    async def sources_of(decision_id: str) -> dict[int, dict[str, Any]]:
        states = (await client.get(f"/api/decisions/{decision_id}/states")).json()
        return {call["sequence"]: call["sources"] for state in states for call in state["calls"]}

    assert await sources_of(first["decision_id"]) == {1: {"description": ["your words"]}}
    found = await sources_of(second)
    # The earlier turn's message is in the history; a choice of the schema has no source.
    assert found[1] == {}
    assert found[2] == {"description": ["your words"]}
    assert found[3]["description"] == ["the model"]
    record = await runtime.audit.load(second)
    assert isinstance(record, DecisionRecord)
    assert not any(entry.kind is EntryKind.SOURCES for entry in record.entries)
    loaded = await load_from_log(runtime.database, second)
    assert (await argument_sources(runtime.database, loaded))[2] == {"description": ["your words"]}

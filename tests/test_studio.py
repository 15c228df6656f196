"""LangGraph Studio: the graph that `langgraph dev` loads, its schemas, and turns in it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graph_agent.graph.topology import TOPOLOGY

EXAMPLE = Path(__file__).parents[1] / "examples" / "studio"


@pytest.fixture
def studio_graph(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Any]:
    """The factory that `langgraph.json` names, loaded from its file as `langgraph dev` does."""
    for name in ("GEMINI_API_KEY", "DATABASE_URL", "GRAPH_AGENT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GRAPH_AGENT_HOME", str(tmp_path))
    path, _, name = json.loads((EXAMPLE / "langgraph.json").read_text())["graphs"]["graph_agent"].partition(":")
    spec = importlib.util.spec_from_file_location("loaded_by_langgraph", EXAMPLE / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    found: Callable[[], Any] = getattr(module, name)
    return found


def databases(home: Path) -> list[Path]:
    return list(home.glob("*.db"))


async def test_its_schemas_are_json_and_it_draws_the_topology(studio_graph: Callable[[], Any], tmp_path: Path) -> None:
    async with studio_graph() as graph:
        assert list(graph.get_input_jsonschema()["properties"]) == ["messages", "message"]
        assert set(graph.get_output_jsonschema()["properties"]) == {
            "messages",
            "conversation_id",
            "decision_id",
            "reply",
            "decision",
        }
        assert {"message", "outcome", "changes"} <= set(graph.builder.state_schema.__annotations__)
        graph.get_context_jsonschema()
        drawn = {(edge.source, edge.target) for edge in graph.get_graph().edges}
    ends = {"END": "__end__"}
    edges = {(state, ends.get(target, target)) for state, outcomes in TOPOLOGY.items() for target in outcomes.values()}
    assert drawn == {("__start__", "BUILD_REQUEST"), *edges}
    assert databases(tmp_path) == []


async def test_a_thread_is_a_conversation_with_confirmation(studio_graph: Callable[[], Any], tmp_path: Path) -> None:
    saver = InMemorySaver()
    thread = {"configurable": {"thread_id": "1"}}
    replies, visited = [], []
    for message in ("add a task to call mom", "delete the call mom task", "yes"):
        async with studio_graph() as graph:
            graph.checkpointer = saver
            updates = [update async for update in graph.astream({"message": message}, thread, stream_mode="updates")]
        visited.append([name for update in updates for name in update])
        last = updates[-1]["BUILD_DECISION"]
        json.dumps(updates)
        replies.append((last["reply"], last["decision"]["outcome_category"]))
    assert replies == [
        ("Added 'call mom' to your list.", "SUCCESS:TASK_COMPLETED"),
        ("Delete task 'call mom'. Should I go ahead? Please answer yes or no.", "SUCCESS:RESPONSE_GIVEN"),
        ("Done: Delete task 'call mom'.", "SUCCESS:TASK_COMPLETED"),
    ]
    assert len(databases(tmp_path)) == 1
    assert visited[2] == ["BUILD_REQUEST", "EXECUTE_TOOLS", "BUILD_DECISION"]


async def test_a_yes_answers_only_the_question_that_its_thread_shows(studio_graph: Callable[[], Any]) -> None:
    here: Any = {"configurable": {"thread_id": "1"}}
    there: Any = {"configurable": {"thread_id": "2"}}
    async with studio_graph() as graph:
        graph.checkpointer = InMemorySaver()
        added = await graph.ainvoke({"message": "add a task to call mom"}, here)
        await graph.ainvoke({"message": "hello"}, there)
        await graph.aupdate_state(there, {"conversation_id": added["conversation_id"]})
        asked = await graph.ainvoke({"message": "delete the call mom task"}, there)
        shown = await graph.ainvoke({"message": "yes"}, here)
        done = await graph.ainvoke({"message": "yes"}, here)
    before = "Your answer may belong to another question, so nothing was done. This one is waiting now."
    assert asked["conversation_id"] == added["conversation_id"]
    assert shown["reply"] == f"{before} {asked['reply']}"
    assert done["reply"] == "Done: Delete task 'call mom'."


async def test_a_message_that_is_refused_begins_no_turn(studio_graph: Callable[[], Any]) -> None:
    async with studio_graph() as graph:
        with pytest.raises(Exception, match=r"The message is empty\."):
            await graph.ainvoke({"message": " "})


async def test_messages_are_accepted_and_the_last_one_is_run_once(studio_graph: Callable[[], Any]) -> None:
    thread = {"configurable": {"thread_id": "1"}}
    async with studio_graph() as graph:
        graph.checkpointer = InMemorySaver()
        ended = await graph.ainvoke({"messages": [{"role": "user", "content": "add a task to call mom"}]}, thread)
        assert [message.text for message in ended["messages"]] == ["add a task to call mom", "Added 'call mom' to your list."]
        empty: list[dict[str, Any]] = [{"messages": []}, {"message": ""}]
        for nothing_new in empty:
            with pytest.raises(Exception, match=r"The message is empty\."):
                await graph.ainvoke(nothing_new, thread)
        listed = await graph.ainvoke({"message": "show my tasks"}, thread)
    assert ((await graph.aget_state(thread)).values["message"], listed["reply"]) == ("", "You have 1 task:\n1. [ ] call mom")
    assert [message.type for message in listed["messages"]] == ["human", "ai", "human", "ai"]


async def test_a_breakpoint_stops_before_the_call_and_a_later_request_continues(
    studio_graph: Callable[[], Any], tmp_path: Path
) -> None:
    saver = InMemorySaver()
    thread: Any = {"configurable": {"thread_id": "1"}}
    async with studio_graph() as graph:
        graph.checkpointer = saver
        await graph.ainvoke({"message": "add a task to call mom"}, thread, interrupt_before=["EXECUTE_TOOLS"])
        assert (await graph.aget_state(thread)).next == ("EXECUTE_TOOLS",)
    (database,) = databases(tmp_path)
    with closing(sqlite3.connect(database)) as tasks:
        assert tasks.execute("SELECT count(*) FROM tasks").fetchall() == [(0,)]
    async with studio_graph() as graph:
        graph.checkpointer = saver
        ended = await graph.ainvoke(None, thread)
    assert ended["reply"] == "Added 'call mom' to your list."
    with closing(sqlite3.connect(database)) as log:
        assert log.execute("SELECT status FROM decision_logs").fetchall() == [("completed",)]


def counts(home: Path, *tables: str) -> list[int]:
    (database,) = databases(home)
    with closing(sqlite3.connect(database)) as log:
        return [log.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]


async def test_a_message_whose_first_node_is_run_twice_begins_one_turn(studio_graph: Callable[[], Any], tmp_path: Path) -> None:
    thread: Any = {"configurable": {"thread_id": "1"}}
    async with studio_graph() as graph:
        graph.checkpointer = InMemorySaver()
        await graph.ainvoke({"message": "add a task to call mom"}, thread, interrupt_before=["BUILD_REQUEST"])
        both = await asyncio.gather(*(graph.ainvoke(None, thread) for _ in range(2)), return_exceptions=True)
        (refused,) = [ended for ended in both if isinstance(ended, BaseException)]
        assert re.search("still being processed|has ended", str(refused))
        assert [ended["reply"] for ended in both if isinstance(ended, dict)] == ["Added 'call mom' to your list."]
        assert counts(tmp_path, "decision_logs", "tasks") == [1, 1]


async def test_an_older_checkpoint_of_a_turn_that_waits_does_no_later_step(
    studio_graph: Callable[[], Any], tmp_path: Path
) -> None:
    thread: Any = {"configurable": {"thread_id": "1"}}
    async with studio_graph() as graph:
        graph.checkpointer = InMemorySaver()
        await graph.ainvoke({"message": "add a task to call mom"}, thread, interrupt_before=["EXECUTE_TOOLS"])
        earlier = [kept.config async for kept in graph.aget_state_history(thread) if kept.next and kept.next != ("__start__",)]
        waiting, *older = [config for config in earlier if (await graph.aget_state(config)).next != ("BUILD_REQUEST",)]
        assert older
        for checkpoint in older:
            with pytest.raises(Exception, match="This turn has gone on from here"):
                await graph.ainvoke(None, checkpoint)
        assert counts(tmp_path, "decision_logs", "tasks") == [1, 0]
        ended = await graph.ainvoke(None, waiting)
        assert (ended["reply"], counts(tmp_path, "tasks")) == ("Added 'call mom' to your list.", [1])
        for checkpoint in (waiting, *older):
            with pytest.raises(Exception, match="This turn has ended"):
                await graph.ainvoke(None, checkpoint)
        assert counts(tmp_path, "decision_logs", "tasks") == [1, 1]


async def test_a_yes_that_is_run_again_from_an_older_checkpoint_confirms_nothing_else(
    studio_graph: Callable[[], Any], tmp_path: Path
) -> None:
    thread: Any = {"configurable": {"thread_id": "1"}}
    async with studio_graph() as graph:
        graph.checkpointer = InMemorySaver()
        for message in ("add a task to call mom", "add a task to call dad", "delete the call mom task"):
            await graph.ainvoke({"message": message}, thread)
        await graph.ainvoke({"message": "yes"}, thread)
        history = [kept async for kept in graph.aget_state_history(thread)]
        said_yes = next(kept.config for kept in history if kept.next == ("BUILD_REQUEST",))
        asked = await graph.ainvoke({"message": "delete the call dad task"}, thread)
        assert "call dad" in asked["reply"]
        again = await graph.ainvoke(None, said_yes)
        assert again["reply"].startswith("Your answer may belong to another question, so nothing was done.")
        assert counts(tmp_path, "tasks") == [1]

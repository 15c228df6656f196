"""An extended topology: it is checked when it is compiled, and obeyed on every path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from langgraph.graph import END

from graph_agent.clock import ManualClock
from graph_agent.errors import ConfigurationError
from graph_agent.graph.added import AddedNode, AddedRuntime
from graph_agent.graph.build import NODES, GraphState, Outcome, TurnGraph, build_graph, builder_of, topology_of
from graph_agent.graph.diagram import state_machine
from graph_agent.graph.fast_node import FastNode, install_fast_nodes
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.topology import TOPOLOGY
from graph_agent.models.record import DecisionRecord, RecordStatus
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.replays.replayer import replay
from graph_agent.reply.fixed import FAILURE_REPLY
from graph_agent.testing import says
from graph_agent.turn.engine import step
from graph_agent.turn.recorder import Recorder
from tests.scripted_turns import TableServer, asks, calls, done, engine_of

CONTENT = {
    **TOPOLOGY,
    "CHECK_RESPONSE": {**TOPOLOGY["CHECK_RESPONSE"], "answered": "CHECK_CONTENT"},
    "CHECK_CONTENT": {"checked": "BUILD_DECISION", "refused": "ERROR_RESPONSE"},
}
ONE_ROUND = {**TOPOLOGY, "CHECK_ITERATIONS": {"below_cap": "TIMEOUT_RESPONSE", "cap_reached": "TIMEOUT_RESPONSE"}}
CAPPED = ["BUILD_REQUEST", "INVOKE_LLM", "CHECK_RESPONSE", "EXECUTE_TOOLS", "APPEND_RESULTS", "CHECK_ITERATIONS",
          "TIMEOUT_RESPONSE", "BUILD_DECISION"]  # fmt: skip


async def check_content(turn: Turn, runtime: AddedRuntime) -> Turn:
    assert turn.ending is not None
    if "secret" in turn.ending.text:
        return turn.to("refused")
    return turn.to("checked", ending=replace(turn.ending, text=f"{turn.ending.text} ({runtime.now():%Y})"))


def with_content() -> Any:
    return build_graph(CONTENT, {"CHECK_CONTENT": check_content})


def one_round() -> Any:
    return build_graph(ONE_ROUND)


@pytest.mark.parametrize(("said", "reply"), [("Hello.", "Hello. (2026)"), ("The secret.", "I'm having trouble")])
async def test_an_added_state_is_stepped_recorded_and_replayed(said: str, reply: str) -> None:
    engine = engine_of(says(said), says(said), graph=with_content())
    finished = await engine.run(asks("hi"))
    assert finished.decision.reply.startswith(reply)
    assert finished.record.states[:4] == ["BUILD_REQUEST", "INVOKE_LLM", "CHECK_RESPONSE", "CHECK_CONTENT"]
    assert [taken.state async for taken in step(engine, asks("hi"))] == finished.record.states
    texts = await engine.audit.texts(list(finished.record.header.digests.values()))
    assert (await replay(finished.record, texts, graph=with_content())).identical
    assert not (await replay(finished.record, texts)).identical
    assert "    CHECK_RESPONSE --> CHECK_CONTENT: answered\n" in state_machine(topology_of(engine.graph))


async def test_an_added_state_has_no_port_to_a_tool_a_model_or_a_confirmation() -> None:
    seen: list[AddedRuntime] = []

    async def look(turn: Turn, runtime: AddedRuntime) -> Turn:
        seen.append(runtime)
        return turn.to("checked")

    await engine_of(says("hi"), graph=build_graph(CONTENT, {"CHECK_CONTENT": look})).run(asks("hi"))
    assert {name for name in dir(seen[0]) if not name.startswith("_")} == {"interrupted", "new_id", "now", "snapshot"}


@pytest.mark.parametrize("field", ["confirmed", "pending", "calls", "context", "iterations"])
async def test_an_added_state_cannot_forge_a_consent_or_a_call(field: str, caplog: pytest.LogCaptureFixture) -> None:
    async def forge(turn: Turn, runtime: AddedRuntime) -> Turn:
        runtime.new_id()
        return turn.to("checked", **{field: object()})

    engine = engine_of(says("hi"), graph=build_graph(CONTENT, {"CHECK_CONTENT": forge}))
    finished = await engine.run(asks("hi"))
    assert (finished.record.status, finished.decision.effects) == (RecordStatus.INTERRUPTED, [])
    assert f"CHECK_CONTENT changed '{field}' of the turn" in caplog.text


async def fails(_: Turn, runtime: AddedRuntime) -> Turn:
    runtime.new_id()
    raise RuntimeError("a fault of the application")


async def forges(turn: Turn, _: AddedRuntime) -> Turn:
    return turn.to("checked", iterations=object())


async def goes_astray(turn: Turn, _: AddedRuntime) -> Turn:
    return turn.to("elsewhere")


AFTER_CALLS = {
    **TOPOLOGY,
    "APPEND_RESULTS": {"appended": "CHECK_ROUND"},
    "CHECK_ROUND": {"checked": "CHECK_ITERATIONS"},
}


@pytest.mark.parametrize("work", [fails, forges, goes_astray])
async def test_what_was_done_before_an_added_state_failed_is_reported_and_replayed(work: AddedNode) -> None:
    graph = build_graph(AFTER_CALLS, {"CHECK_ROUND": work})
    engine = engine_of(calls(("add_task", {"description": "call mom"})), says("Added."), graph=graph)
    finished = await engine.run(asks())
    assert finished.record.status is RecordStatus.INTERRUPTED
    assert finished.decision.effects == ["Add task 'call mom'"]
    assert finished.decision.reply == f"{FAILURE_REPLY} Already done: Add task 'call mom'."
    texts = await engine.audit.texts(list(finished.record.header.digests.values()))
    assert (await replay(finished.record, texts, graph=graph)).identical


async def test_a_text_that_an_added_state_failed_to_check_is_not_shown() -> None:
    graph = build_graph(CONTENT, {"CHECK_CONTENT": fails})
    finished = await engine_of(says("The secret."), graph=graph).run(asks("hi"))
    assert finished.decision.reply == FAILURE_REPLY


async def test_a_call_that_an_added_state_failed_to_check_is_not_made() -> None:
    table = {**TOPOLOGY, "CHECK_RESPONSE": {**TOPOLOGY["CHECK_RESPONSE"], "tool_calls": "CHECK_CALLS"}}
    table["CHECK_CALLS"] = {"checked": "EXECUTE_TOOLS"}
    server = TableServer({"add_task": done({"receipt": "added"})})
    engine = engine_of(
        calls(("add_task", {"description": "x"})), graph=build_graph(table, {"CHECK_CALLS": fails}), server=server
    )
    finished = await engine.run(asks())
    assert (server.sent, finished.decision.effects, finished.decision.reply) == ([], [], FAILURE_REPLY)


async def test_a_confirmed_call_is_reported_as_done_if_an_added_state_fails_after_it() -> None:
    table = {**TOPOLOGY, "EXECUTE_TOOLS": {**TOPOLOGY["EXECUTE_TOOLS"], "confirmed_done": "CHECK_DONE"}}
    graph = build_graph({**table, "CHECK_DONE": {"checked": "BUILD_DECISION"}}, {"CHECK_DONE": fails})
    server = TableServer({"delete_task": done({})}, {"delete_task": done({"description": "buy bread"})})
    engine = engine_of(calls(("delete_task", {"task_id": "t1"})), server=server, graph=graph)
    asked = await engine.process_message(asks("delete the bread"))
    finished = await engine.run(asks("yes", pending_confirmation=asked.pending_action))
    assert (len(server.sent), finished.record.status) == (1, RecordStatus.INTERRUPTED)
    assert finished.decision.reply == f"{FAILURE_REPLY} Already done: Delete task 'buy bread'."


@pytest.mark.parametrize(
    ("table", "nodes", "message"),
    [
        (CONTENT, (), "CHECK_CONTENT has no node: pass it in nodes= of build_graph"),
        (TOPOLOGY, ("CHECK_CONTENT",), "the node CHECK_CONTENT has no row: add it to the topology"),
        ({**CONTENT, "CHECK_CONTENT": {"checked": "NOWHERE"}}, ("CHECK_CONTENT",), "NOWHERE, which has no row: add it to"),
        ({**CONTENT, "CHECK_CONTENT": {"checked": "END"}}, ("CHECK_CONTENT",), "exactly BUILD_DECISION leads to END"),
        ({**TOPOLOGY, "CHECK_CONTENT": {"x": "BUILD_DECISION"}}, ("CHECK_CONTENT",), "no outcome leads to CHECK_CONTENT"),
        (
            {**TOPOLOGY, "CHECK_RESPONSE": {"answered": "BUILD_DECISION", "tool_calls": "EXECUTE_TOOLS"}},
            (),
            r"CHECK_RESPONSE has no outcome 'failed': add it to the topology \(TOPOLOGY in graph/topology.py",
        ),
        (
            {**CONTENT, "CHECK_CONTENT": {"checked": "BUILD_DECISION", "again": "INVOKE_LLM"}},
            ("CHECK_CONTENT",),
            "CHECK_ITERATIONS does not count the loop .*CHECK_CONTENT",
        ),
        (
            {**TOPOLOGY, "APPEND_RESULTS": {"appended": "CHECK_ITERATIONS", "again": "INVOKE_LLM"}},
            (),
            "does not count the loop",
        ),
        (TOPOLOGY, ("EXECUTE_TOOLS",), "EXECUTE_TOOLS is a shipped state"),
    ],
)
def test_a_wrong_table_is_refused_with_what_to_add_where(
    table: Mapping[str, Mapping[str, str]], nodes: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build_graph(table, dict.fromkeys(nodes, check_content))


def test_the_limit_of_states_follows_from_the_table() -> None:
    in_the_loop = {
        **TOPOLOGY,
        "APPEND_RESULTS": {"appended": "CHECK_CONTENT"},
        "CHECK_CONTENT": {"checked": "CHECK_ITERATIONS"},
    }
    added = {"CHECK_CONTENT": check_content}
    shipped, looping, checked = (
        builder_of(graph).recursion_limit(5) for graph in (build_graph(), build_graph(in_the_loop, added), with_content())
    )
    assert looping >= shipped + 5
    assert checked == shipped + 1


async def test_a_replaced_edge_is_obeyed_by_langgraph_the_fast_path_the_engine_and_the_replay() -> None:
    script = [calls(("add_task", {"description": f"task {number}"})) for number in range(5)]
    plain = one_round().with_config(callbacks=[])
    for graph in (one_round(), plain):
        engine = engine_of(*script, graph=graph)
        finished = await engine.run(asks())
        assert finished.record.states == CAPPED
        assert [taken.state async for taken in step(engine_of(*script, graph=graph), asks())] == CAPPED
        texts = await engine.audit.texts(list(finished.record.header.digests.values()))
        report = await replay(finished.record, texts, graph=graph)
        assert report.identical
        snapshot = await engine.snapshot_of(finished.record.header)
        assert [taken.state async for taken in engine.steps_of(finished.record, snapshot)] == CAPPED

        def runtime(record: DecisionRecord = finished.record, snapshot: PolicySnapshot = snapshot) -> TurnRuntime:
            return TurnRuntime(Recorder(record.header, snapshot, clock=ManualClock(), replayed=record.entries), snapshot)

        first = Turn.of(finished.record.header)
        updates = graph.astream({"turn": first}, context=runtime(), stream_mode="updates")
        assert [name async for update in updates for name in update] == CAPPED
        assert (await graph.ainvoke({"turn": first}, context=runtime()))["turn"].iterations == 1


def test_an_edge_of_another_kind_is_left_to_langgraph() -> None:
    builder = TurnGraph(GraphState, context_schema=TurnRuntime)
    builder.add_node("A", lambda state: state)
    builder.add_conditional_edges("A", lambda _: "end", {"end": END})
    builder.set_entry_point("A")
    compiled = builder.compile()
    assert builder.followed is None
    assert not install_fast_nodes(compiled, {"A": NODES["BUILD_DECISION"]}, builder.followed)

    beside = TurnGraph(GraphState, context_schema=TurnRuntime)
    beside.add_node("A", lambda state: state)
    beside.add_conditional_edges("A", Outcome(), {"end": END})
    beside.add_edge("A", END)
    beside.set_entry_point("A")
    beside.compile()
    assert beside.followed is None
    assert all(isinstance(build_graph().nodes[name].node, FastNode) for name in NODES)


async def test_an_outcome_without_a_row_names_the_file_to_edit(caplog: pytest.LogCaptureFixture) -> None:
    async def astray(turn: Turn, _: AddedRuntime) -> Turn:
        return turn.to("elsewhere")

    await engine_of(says("hi"), graph=build_graph(CONTENT, {"CHECK_CONTENT": astray})).run(asks("hi"))
    assert "CHECK_CONTENT has no outcome 'elsewhere': add it to TOPOLOGY in graph/topology.py" in caplog.text

"""The fast path takes the same steps as LangGraph's own sequences, and gives way to them where it must."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from graph_agent.clock import ManualClock
from graph_agent.errors import RecordMismatchError
from graph_agent.graph import build, fast_node
from graph_agent.graph.added import AddedRuntime
from graph_agent.graph.build import NODES, CompiledGraph, GraphState, build_graph, builder_of
from graph_agent.graph.fast_node import FastNode, install_fast_nodes
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.step import Step
from graph_agent.graph.stepping import require_whole_path, walk, walk_edges
from graph_agent.testing import says
from graph_agent.turn.engine import step
from graph_agent.turn.recorder import Recorder
from tests.graph.test_transitions import WALKS
from tests.graph.test_your_own_states import CONTENT
from tests.scripted_turns import asks, engine_of


class Listener(AsyncCallbackHandler):
    """A tracing handler that notes the runs it hears of."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_chain_start(self, *_: Any, name: str = "", **__: Any) -> None:
        self.heard.append(name)


class NotToBeRun:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("the sequence was run")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> CompiledGraph:
    """The graph as LangGraph compiles it."""
    with monkeypatch.context() as patched:
        # `build_graph` installs it always.
        patched.setattr(build, "install_fast_nodes", lambda *_: False)
        return build_graph()


def without_sequences() -> CompiledGraph:
    """A graph that fails if it does not take the fast path."""
    graph = build_graph()
    for name in NODES:
        graph.nodes[name].node._sequence = NotToBeRun()  # type: ignore[union-attr]  # noqa: SLF001 (what the fast path must not read)
    return graph


@pytest.mark.parametrize("name", WALKS)
async def test_every_walk_has_the_same_steps_and_record_on_both_paths(name: str, plain: CompiledGraph) -> None:
    context, script = WALKS[name]
    listener = Listener()
    graphs = (plain, without_sequences(), build_graph().with_config(callbacks=[listener]))
    stepped = [[taken async for taken in step(engine_of(*script, graph=graph), context)] for graph in graphs]
    assert stepped[0] == stepped[1] == stepped[2]
    assert [heard for heard in listener.heard if heard in NODES] == [taken.state for taken in stepped[0]]
    records = [(await engine_of(*script, graph=graph).run(context)).record for graph in graphs]
    assert records[0] == records[1] == records[2]


async def test_steps_that_are_not_one_whole_walk_are_no_path() -> None:
    graph, (context, script) = build_graph(), WALKS["tool round"]
    steps = [taken async for taken in step(engine_of(*script, graph=graph), context)]
    again = [taken async for taken in step(engine_of(*script, graph=graph), context)]
    require_whole_path(graph, steps)
    impossible = [[], steps[:-1], steps[1:], steps + again, steps * 3, steps[:2] + again[2:], [*steps[:1], *steps[2:]]]
    impossible.append([*steps[:-1], replace(steps[-1], outcome="no such outcome")])
    for path in impossible:
        with pytest.raises(RecordMismatchError, match="the path of a turn"):
            require_whole_path(graph, path)


@pytest.mark.parametrize("name", WALKS)
async def test_ainvoke_astream_and_the_walk_of_a_replay_give_the_same_steps(name: str, plain: CompiledGraph) -> None:
    context, script = WALKS[name]
    engine = engine_of(*script)
    record = (await engine.run(context)).record
    snapshot = await engine.snapshot_of(record.header)

    def runtime() -> TurnRuntime:
        return TurnRuntime(Recorder(record.header, snapshot, clock=ManualClock(), replayed=record.entries), snapshot)

    first = Turn.of(record.header)
    walked: list[list[Step]] = []
    ended = []
    for graph in (plain, without_sequences(), build_graph().with_config(callbacks=[Listener()])):
        walked.append(await walk(graph, first, runtime()))
        updates = [update async for update in graph.astream({"turn": first}, context=runtime(), stream_mode="updates")]
        assert updates == [{taken.state: {"turn": taken.turn}} for taken in walked[0]]
        ended.append((await graph.ainvoke({"turn": first}, context=runtime()))["turn"])
    walked.append([taken async for taken in walk_edges(build_graph(), first, runtime())])
    assert walked[0] == walked[1] == walked[2] == walked[3]
    assert all(turn == walked[0][-1].turn for turn in ended)
    assert ended[0].decision is not None


@pytest.mark.parametrize("name", ["_SEND", "_RUNTIME"])
async def test_the_sequence_runs_where_a_private_name_is_missing(
    name: str, plain: CompiledGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The name is LangGraph's: a release without it is not installed.
    monkeypatch.setattr(fast_node, name, "another name")
    context, script = WALKS["tool round"]
    engine = engine_of(*script)
    record = (await engine.run(context)).record
    snapshot = await engine.snapshot_of(record.header)
    runtime = TurnRuntime(Recorder(record.header, snapshot, clock=ManualClock(), replayed=record.entries), snapshot)
    with pytest.raises(AssertionError, match="the sequence was run"):
        await without_sequences().ainvoke({"turn": Turn.of(record.header)}, context=runtime)
    stepped = [[taken async for taken in step(engine_of(*script, graph=graph), context)] for graph in (plain, build_graph())]
    assert stepped[0] == stepped[1]
    assert stepped[0][-1].state == "BUILD_DECISION"


async def test_nothing_is_replaced_where_the_trigger_channels_have_other_names(
    plain: CompiledGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The name is LangGraph's: a release without it is not installed.
    monkeypatch.setattr(fast_node, "BRANCH", "another name:{}")
    graph = build_graph()
    assert not any(isinstance(graph.nodes[name].node, FastNode) for name in NODES)
    context, script = WALKS["tool round"]
    stepped = [[taken async for taken in step(engine_of(*script, graph=each), context)] for each in (plain, graph)]
    assert stepped[0] == stepped[1]


class Watched(Runnable[Any, Any]):
    """Runs a node of LangGraph's, and keeps the runtime that it was given."""

    def __init__(self, node: Any, given: list[Runtime[Any]]) -> None:
        self.node, self.given = node, given

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 (LangChain's signature)
        raise NotImplementedError

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 (LangChain's signature)
        self.given += [value for value in (config or {})["configurable"].values() if isinstance(value, Runtime)]
        return await self.node.ainvoke(input, config, **kwargs)


async def test_all_nodes_of_a_turn_are_given_the_same_runtime() -> None:
    graph, (context, script) = build_graph(), WALKS["tool round"]
    given: list[Runtime[Any]] = []
    for name in NODES:
        graph.nodes[name].node = Watched(graph.nodes[name].node, given)
    states = [taken.state async for taken in step(engine_of(*script, graph=graph), context)]
    assert len(given) == len(states)
    assert all(one is given[0] for one in given)


@pytest.mark.parametrize("callbacks", [[], [Listener()]])
async def test_a_graph_that_an_added_state_runs_has_its_own_execution_information(callbacks: list[Any]) -> None:
    seen: list[str] = []

    async def inner(state: GraphState, runtime: Runtime[None]) -> GraphState:
        assert runtime.execution_info is not None
        seen.append(runtime.execution_info.checkpoint_ns)
        return state

    nested = StateGraph(GraphState).add_node(inner).add_edge(START, "inner").compile()

    async def check_content(turn: Turn, _: AddedRuntime) -> Turn:
        await nested.ainvoke({"turn": turn})
        return turn.to("checked")

    graph = build_graph(CONTENT, {"CHECK_CONTENT": check_content}).with_config(callbacks=callbacks)
    finished = await engine_of(says("Hello."), graph=graph).run(asks("hi"))
    assert "CHECK_CONTENT" in finished.record.states
    assert "inner:" in seen[0]


def test_nothing_is_replaced_in_a_graph_of_another_shape() -> None:
    graph = build_graph()
    assert all(type(graph.nodes[name].node) is FastNode for name in NODES)
    nodes, channels, edges = graph.nodes, graph.channels, builder_of(graph).followed
    assert not install_fast_nodes(SimpleNamespace(nodes=nodes, channels={}), NODES, edges)
    assert not install_fast_nodes(SimpleNamespace(nodes={}, channels=channels), NODES, edges)
    assert not install_fast_nodes(SimpleNamespace(nodes=nodes, channels=channels), NODES, None)
    assert install_fast_nodes(SimpleNamespace(nodes=nodes, channels=channels), NODES, edges)

"""The compiled graph, derived from the topology. The next state comes from its edges, also in the fast path and in a replay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypedDict

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph import graph as langgraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from graph_agent.errors import ConfigurationError
from graph_agent.graph import topology as shipped
from graph_agent.graph.added import AddedNode, require_declared, restricted
from graph_agent.graph.fast_node import Edge, Node, install_fast_nodes
from graph_agent.graph.nodes.append_results import append_results
from graph_agent.graph.nodes.build_decision import build_decision
from graph_agent.graph.nodes.build_request import build_request
from graph_agent.graph.nodes.check_iterations import check_iterations
from graph_agent.graph.nodes.check_response import check_response
from graph_agent.graph.nodes.error_response import error_response
from graph_agent.graph.nodes.execute_tools import execute_tools
from graph_agent.graph.nodes.invoke_llm import invoke_llm
from graph_agent.graph.nodes.timeout_response import timeout_response
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.topology import Topology
from graph_agent.policy.call_in_hand import Gate
from graph_agent.policy.guard import GATES, check_gates

NODES: Mapping[str, Node] = MappingProxyType(
    {
        shipped.BUILD_REQUEST: build_request,
        shipped.INVOKE_LLM: invoke_llm,
        shipped.CHECK_RESPONSE: check_response,
        shipped.EXECUTE_TOOLS: execute_tools,
        shipped.APPEND_RESULTS: append_results,
        shipped.CHECK_ITERATIONS: check_iterations,
        shipped.TIMEOUT_RESPONSE: timeout_response,
        shipped.ERROR_RESPONSE: error_response,
        shipped.BUILD_DECISION: build_decision,
    }
)


class GraphState(TypedDict):
    """The state of LangGraph: one channel with the frozen turn."""

    turn: Turn


class Outcome(Runnable[GraphState, str]):
    """The path function of every conditional edge: it returns the outcome that the node has set.

    It is a Runnable because LangGraph wraps a plain function in a traced task, which costs time at each edge.
    """

    name = "outcome"

    def invoke(self, input: GraphState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002,ARG002 (LangChain's signature)
        return input["turn"].outcome

    async def ainvoke(self, input: GraphState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002 (LangChain's signature)
        return self.invoke(input, config, **kwargs)


CompiledGraph = CompiledStateGraph[GraphState, TurnRuntime, GraphState, GraphState]


class TurnGraph(langgraph.StateGraph[GraphState, TurnRuntime, GraphState, GraphState]):
    """The builder of the state machine. A compiled graph keeps it, with the table and the nodes that it was built from."""

    table: Topology
    work: Mapping[str, Node]
    gates: tuple[Gate, ...]
    path_lengths: tuple[int, int]
    followed: Mapping[str, Edge] | None
    """The edge after each node; None if a node has edges that only LangGraph can follow."""

    def compile(self, *options: Any, **named: Any) -> CompiledGraph:
        edges = {name: self._edge_after(name) for name in self.nodes}
        known = {name: edge for name, edge in edges.items() if edge is not None}
        self.followed = known if len(known) == len(edges) else None
        return super().compile(*options, **named)

    def _edge_after(self, name: str) -> Edge | None:
        """Return the only edge of a node: a plain one, or a conditional one that an `Outcome` follows."""
        branches = list(self.branches.get(name, {}).values())
        plain = [end for start, end in self.edges if start == name]
        joined = any(name in starts for starts, _ in self.waiting_edges)
        if joined or len(branches) + len(plain) != 1:
            return None
        if plain:
            return dict.fromkeys(self.table[name], plain[0])
        path, ends = getattr(branches[0], "path", None), getattr(branches[0], "ends", None)
        return {str(outcome): end for outcome, end in ends.items()} if isinstance(path, Outcome) and ends else None

    def recursion_limit(self, max_iterations: int) -> int:
        """Return LangGraph's own limit of states, more than the longest path through the table has.

        It is never reached, because CHECK_ITERATIONS ends the loop before.
        """
        states_per_round, others = self.path_lengths
        return states_per_round * max_iterations + others


def build_graph(
    topology: Topology | None = None, nodes: Mapping[str, AddedNode] | None = None, gates: tuple[Gate, ...] = GATES
) -> CompiledGraph:
    """Compile the state machine. It keeps no state: one compiled graph serves all turns of a process.

    `topology` is an extension of the shipped table, `nodes` has the functions of the states that it adds, and `gates` is the
    table of `with_gate`. Raises `ConfigurationError`, which says what is missing, and where to add it.
    """
    graph = TurnGraph(GraphState, context_schema=TurnRuntime)
    table = graph.table = shipped.TOPOLOGY if topology is None else topology
    added = nodes or {}
    if replaced := [name for name in added if name in NODES]:
        raise ConfigurationError(f"{replaced[0]} is a shipped state: let its outcomes lead to a state of your own instead")
    shipped.check_topology(table, {*NODES, *added})
    graph.path_lengths = shipped.path_lengths(table)
    check_gates(gates)
    graph.gates = gates
    added_work = {name: restricted(name, node, table[name]) for name, node in added.items()}
    through_gates: Node = partial(execute_tools, gates=gates)
    work: dict[str, Node] = {**NODES, shipped.EXECUTE_TOOLS: through_gates, **added_work}
    graph.work = {name: _reporting(name, work[name], table[name]) for name in table}
    for name, outcomes in table.items():
        graph.add_node(name, _node(graph.work[name]))
        targets: dict[Hashable, str] = {outcome: _target(target) for outcome, target in outcomes.items()}
        if len(targets) == 1:
            graph.add_edge(name, next(iter(targets.values())))
        else:
            graph.add_conditional_edges(name, Outcome(), targets)
    graph.add_edge(langgraph.START, shipped.START)
    # Without False the saver of a graph whose node runs a turn would store it, and resume it as a part of its own.
    compiled = graph.compile(checkpointer=False)
    install_fast_nodes(compiled, graph.work, graph.followed)
    return compiled


@cache
def shipped_graph() -> CompiledGraph:
    """Return the state machine as it is shipped, compiled once for the process."""
    return build_graph()


def builder_of(graph: CompiledGraph) -> TurnGraph:
    """Return the builder of a graph that `build_graph` has compiled."""
    assert isinstance(graph.builder, TurnGraph)
    return graph.builder


def topology_of(graph: CompiledGraph) -> Topology:
    """Return the table that a graph was built from."""
    return builder_of(graph).table


def gates_of(graph: CompiledGraph) -> tuple[Gate, ...]:
    """Return the table of gates that calls pass in a graph."""
    return builder_of(graph).gates


def _node(work: Node) -> Callable[..., Awaitable[GraphState]]:
    async def run(state: GraphState, runtime: Runtime[TurnRuntime]) -> GraphState:
        return {"turn": await work(state["turn"], runtime.context)}

    return run


def _reporting(name: str, work: Node, outcomes: Mapping[str, str]) -> Node:
    """Return `work`, which then reports its end. It raises `UndeclaredOutcomeError` for an outcome that the topology lacks."""

    async def run(turn: Turn, runtime: TurnRuntime) -> Turn:
        after = await work(turn, runtime)
        require_declared(name, after.outcome, outcomes)
        if runtime.ended is not None:
            await runtime.ended(name, turn, after)
        return after

    return run


def _target(name: str) -> str:
    return langgraph.END if name == shipped.END else name

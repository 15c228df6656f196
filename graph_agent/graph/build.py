"""The compiled graph, derived from the topology."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any, TypedDict

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph import graph as langgraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from graph_agent.errors import UndeclaredOutcomeError
from graph_agent.graph import fast_path, topology
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

Node = Callable[[Turn, TurnRuntime], Awaitable[Turn]]

NODES: Mapping[str, Node] = MappingProxyType(
    {
        topology.BUILD_REQUEST: build_request,
        topology.INVOKE_LLM: invoke_llm,
        topology.CHECK_RESPONSE: check_response,
        topology.EXECUTE_TOOLS: execute_tools,
        topology.APPEND_RESULTS: append_results,
        topology.CHECK_ITERATIONS: check_iterations,
        topology.TIMEOUT_RESPONSE: timeout_response,
        topology.ERROR_RESPONSE: error_response,
        topology.BUILD_DECISION: build_decision,
    }
)


class GraphState(TypedDict):
    """The state of LangGraph: one channel with the frozen turn."""

    turn: Turn


CompiledGraph = CompiledStateGraph[GraphState, TurnRuntime, GraphState, GraphState]


def build_graph() -> CompiledGraph:
    """Compile the state machine. It keeps no state: one compiled graph serves all turns of a process."""
    graph = langgraph.StateGraph(GraphState, context_schema=TurnRuntime)
    checked = checked_nodes()
    for name, outcomes in topology.TOPOLOGY.items():
        graph.add_node(name, _node(checked[name]))
        targets: dict[Hashable, str] = {outcome: _target(target) for outcome, target in outcomes.items()}
        if len(targets) == 1:
            graph.add_edge(name, next(iter(targets.values())))
        else:
            graph.add_conditional_edges(name, _Outcome(), targets)
    graph.add_edge(langgraph.START, topology.START)
    compiled = graph.compile()
    fast_path.install(compiled.nodes, compiled.channels, checked)
    return compiled


def checked_nodes() -> dict[str, Node]:
    """Return the nodes by name; each raises `UndeclaredOutcomeError` if the topology does not have its outcome."""
    return {name: _checked(name, node) for name, node in NODES.items()}


def _node(work: Node) -> Callable[..., Awaitable[GraphState]]:
    async def run(state: GraphState, runtime: Runtime[TurnRuntime]) -> GraphState:
        return {"turn": await work(state["turn"], runtime.context)}

    return run


def _checked(name: str, work: Node) -> Node:
    outcomes = topology.TOPOLOGY[name]

    async def run(turn: Turn, runtime: TurnRuntime) -> Turn:
        turn = await work(turn, runtime)
        if turn.outcome not in outcomes:
            raise UndeclaredOutcomeError(f"{name} has no outcome '{turn.outcome}'")
        return turn

    return run


class _Outcome(Runnable[GraphState, str]):
    """The path function of every conditional edge: it returns the outcome that the node has set.

    It is a Runnable because LangGraph wraps a plain function in a traced task, which costs time at each edge.
    """

    name = "outcome"

    def invoke(self, input: GraphState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002,ARG002 (LangChain's signature)
        return input["turn"].outcome

    async def ainvoke(self, input: GraphState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002 (LangChain's signature)
        return self.invoke(input, config, **kwargs)


def _target(name: str) -> str:
    return langgraph.END if name == topology.END else name

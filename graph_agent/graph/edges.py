"""The edges of a compiled graph: the next state comes from them, also where LangGraph's own way to run a node is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from langchain_core.runnables import Runnable, RunnableConfig

from graph_agent.graph.state import Turn


class GraphState(TypedDict):
    """The state of LangGraph: one channel with the frozen turn."""

    turn: Turn


Edge = Mapping[str, str]
"""The next node for each outcome of a node; LangGraph's END after the last one."""


class Outcome(Runnable[GraphState, str]):
    """The path function of every conditional edge: it returns the outcome that the node has set.

    It is a Runnable because LangGraph wraps a plain function in a traced task, which costs time at each edge.
    """

    name = "outcome"

    def invoke(self, input: GraphState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002,ARG002 (LangChain's signature)
        return input["turn"].outcome

    async def ainvoke(self, input: GraphState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002 (LangChain's signature)
        return self.invoke(input, config, **kwargs)


def declared_edges(compiled: Any) -> Mapping[str, Edge] | None:
    """Return the edge after each node of a compiled graph; None if a node has edges that only LangGraph can follow."""
    builder = getattr(compiled, "builder", None)
    nodes = getattr(builder, "nodes", {})
    edges = {name: _edge_after(name, builder) for name in nodes}
    known = {name: edge for name, edge in edges.items() if edge is not None}
    return known if nodes and len(known) == len(nodes) else None


def _edge_after(name: str, builder: Any) -> Edge | None:
    """Return the one edge of a node: a plain one, or a conditional one whose path is an `Outcome` with a map of its ends."""
    branches = list(getattr(builder, "branches", {}).get(name, {}).values())
    plain = [end for start, end in getattr(builder, "edges", ()) if start == name]
    joined = any(name in starts for starts, _ in getattr(builder, "waiting_edges", ()))
    if joined or len(branches) + len(plain) != 1:
        return None
    if plain:
        return dict.fromkeys(builder.table[name], plain[0])
    path, ends = getattr(branches[0], "path", None), getattr(branches[0], "ends", None)
    return ends if isinstance(path, Outcome) and ends else None

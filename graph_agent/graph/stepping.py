"""Execution of a turn node by node."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from langgraph.errors import GraphRecursionError

from graph_agent.graph import topology
from graph_agent.graph.build import CompiledGraph, Node
from graph_agent.graph.state import Turn, TurnRuntime


@dataclass(frozen=True, slots=True)
class Step:
    """The work of one node. It unpacks to `(state, outcome, changed)`."""

    state: str
    outcome: str
    before: Turn
    turn: Turn

    @property
    def changed(self) -> dict[str, Any]:
        """The fields that the node has changed, with their new values."""
        names = (field.name for field in fields(Turn) if field.name != "outcome")
        return {name: value for name in names if (value := getattr(self.turn, name)) != getattr(self.before, name)}

    def __iter__(self) -> Iterator[Any]:
        return iter((self.state, self.outcome, self.changed))


async def walk(graph: CompiledGraph, turn: Turn, runtime: TurnRuntime) -> AsyncGenerator[Step]:
    """Run `turn` through `graph` and yield a `Step` after each node. A node runs only when its step is requested."""
    updates = graph.astream(
        {"turn": turn},
        context=runtime,
        stream_mode="updates",
        output_keys="turn",  # an update is then the turn itself, not a dict of channels
        config={"recursion_limit": topology.recursion_limit(runtime.config.max_iterations)},
    )
    async for update in updates:
        for name, after in update.items():
            yield Step(name, after.outcome, turn, after)
            turn = after


async def walk_table(nodes: Mapping[str, Node], turn: Turn, runtime: TurnRuntime) -> AsyncGenerator[Step]:
    """Take the same steps as `walk` from the transition table alone: LangGraph would take most of the time of a replay.

    `nodes` are those of `checked_nodes`. There is no checkpoint and no callback.
    """
    state, limit = topology.START, topology.recursion_limit(runtime.config.max_iterations)
    for _ in range(limit):
        after = await nodes[state](turn, runtime)
        yield Step(state, after.outcome, turn, after)
        state, turn = topology.TOPOLOGY[state][after.outcome], after
        if state == topology.END:
            return
    raise GraphRecursionError(f"the turn has not ended after {limit} states")

"""Execution of a turn node by node."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, fields
from typing import Any

from graph_agent.graph.build import CompiledGraph
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.topology import recursion_limit


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
        config={"recursion_limit": recursion_limit(runtime.config.max_iterations)},
    )
    async for update in updates:
        for name, after in update.items():
            yield Step(name, after.outcome, turn, after)
            turn = after

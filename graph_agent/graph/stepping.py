"""Execution of a turn node by node."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config
from langgraph.errors import GraphRecursionError
from langgraph.graph import END as LANGGRAPH_END

from graph_agent.errors import RecordMismatchError
from graph_agent.graph.build import CompiledGraph, builder_of
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.topology import END, START
from graph_agent.models.record import RecordEntry


@dataclass(frozen=True, slots=True)
class Step:
    """The work of one node. It unpacks to `(state, outcome, changed)`."""

    state: str
    outcome: str
    before: Turn
    turn: Turn
    entered: str = END
    """The next state."""
    ended_us: int = field(default=0, compare=False)
    """The time when the node ended, in microseconds after the turn began."""
    entries: Sequence[RecordEntry] = field(default=(), compare=False)
    """The answers that the ports gave to the node."""

    @property
    def changed(self) -> dict[str, Any]:
        """The fields that the node has changed, with their new values."""
        names = (field.name for field in fields(Turn) if field.name != "outcome")
        return {name: value for name in names if (value := getattr(self.turn, name)) != getattr(self.before, name)}

    def __iter__(self) -> Iterator[Any]:
        return iter((self.state, self.outcome, self.changed))


def require_whole_path(graph: CompiledGraph, steps: Sequence[Step]) -> None:
    """Raise `RecordMismatchError` unless `steps` are one walk along the edges of `graph`, from its first state to its end."""
    edges = builder_of(graph).followed or builder_of(graph).table
    entered, turn = START, None
    for step in steps:
        if step.state != entered or (turn is not None and step.before is not turn):
            raise RecordMismatchError(f"the path of a turn goes on with {step.state} where the graph enters {entered}")
        entered, turn = edges[entered].get(step.outcome, ""), step.turn
    if entered not in (END, LANGGRAPH_END):
        raise RecordMismatchError(f"the path of a turn does not end: the graph enters {entered}")


async def walk(
    graph: CompiledGraph,
    turn: Turn,
    runtime: TurnRuntime,
    end_state: Callable[[], tuple[int, Sequence[RecordEntry]]] = lambda: (0, ()),
) -> AsyncGenerator[Step]:
    """Run `turn` through `graph` and yield a `Step` after each node. A node runs only when its step is requested.

    `end_state` is called after each node, and returns the last two fields of its step.
    """
    builder = builder_of(graph)
    config: RunnableConfig = {"recursion_limit": builder.recursion_limit(runtime.snapshot.config.max_iterations)}
    if var_child_runnable_config.get() is not None:
        # With a thread id LangGraph inherits nothing but callbacks from the graph whose node runs this turn. It costs time.
        config["configurable"] = {"thread_id": turn.decision_id}
    updates = graph.astream(
        {"turn": turn},
        context=runtime,
        stream_mode="updates",
        output_keys="turn",  # an update is then the turn itself, not a dict of channels
        config=config,
    )
    async for update in updates:
        for name, after in update.items():
            yield Step(name, after.outcome, turn, after, builder.table[name][after.outcome], *end_state())
            turn = after


async def walk_edges(graph: CompiledGraph, turn: Turn, runtime: TurnRuntime) -> AsyncGenerator[Step]:
    """Take the same steps as `walk` along the declared edges alone: LangGraph would take most of the time of a replay.

    There is no checkpoint and no callback.
    """
    builder = builder_of(graph)
    if (edges := builder.followed) is None:
        async for step in walk(graph, turn, runtime):
            yield step
        return
    state, limit = START, builder.recursion_limit(runtime.snapshot.config.max_iterations)
    for _ in range(limit):
        after = await builder.work[state](turn, runtime)
        entered = edges[state][after.outcome]
        yield Step(state, after.outcome, turn, after, END if entered == LANGGRAPH_END else entered)
        state, turn = entered, after
        if state == LANGGRAPH_END:
            return
    raise GraphRecursionError(f"the turn has not ended after {limit} states")

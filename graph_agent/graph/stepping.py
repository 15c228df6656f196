"""Execution of a turn node by node."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace

from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config
from langgraph.errors import GraphRecursionError
from langgraph.graph import END as LANGGRAPH_END

from graph_agent.errors import RecordMismatchError
from graph_agent.graph.build import CompiledGraph, builder_of
from graph_agent.graph.fast_node import lean_configurable
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.step import Step
from graph_agent.graph.topology import END, START
from graph_agent.models.record import RecordEntry


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


EndState = Callable[[], tuple[int, Sequence[RecordEntry]]]
"""Called after each node; returns the last two fields of its step."""


def _no_end_state() -> tuple[int, Sequence[RecordEntry]]:
    return 0, ()


async def walk(
    graph: CompiledGraph,
    turn: Turn,
    runtime: TurnRuntime,
    end_state: EndState = _no_end_state,
    on_step: Callable[[Step], Awaitable[None]] | None = None,
) -> list[Step]:
    """Run `turn` through `graph` and return its steps. `on_step` is awaited at the end of each node, before the next one."""
    builder = builder_of(graph)
    steps: list[Step] = []

    async def ended(name: str, before: Turn, after: Turn) -> None:
        step = Step(name, after.outcome, before, after, builder.table[name][after.outcome], *end_state())
        steps.append(step)
        if on_step is not None:
            await on_step(step)

    runtime = replace(runtime, ended=ended)
    config: RunnableConfig = {"recursion_limit": builder.recursion_limit(runtime.snapshot.config.max_iterations)}
    if var_child_runnable_config.get() is not None:
        # With a thread id LangGraph inherits nothing but callbacks from the graph whose node runs this turn. It costs time.
        config["configurable"] = {"thread_id": turn.decision_id}
    else:
        config["configurable"] = lean_configurable(runtime)
    # The nodes report their steps themselves: streamed updates cost a twentieth of the graph's time.
    async for _ in graph.astream({"turn": turn}, context=runtime, stream_mode=[], config=config):
        pass
    return steps


async def walk_edges(
    graph: CompiledGraph, turn: Turn, runtime: TurnRuntime, end_state: EndState = _no_end_state
) -> AsyncGenerator[Step]:
    """Take the same steps as `walk` along the declared edges alone: LangGraph would take most of the time of a replay.

    There is no checkpoint and no callback. A node runs only when its step is requested.
    """
    builder = builder_of(graph)
    if (edges := builder.followed) is None:
        async for step in _steps_of_walk(graph, turn, runtime, end_state):
            yield step
        return
    state, limit = START, builder.recursion_limit(runtime.snapshot.config.max_iterations)
    for _ in range(limit):
        after = await builder.work[state](turn, runtime)
        entered = edges[state][after.outcome]
        yield Step(state, after.outcome, turn, after, END if entered == LANGGRAPH_END else entered, *end_state())
        state, turn = entered, after
        if state == LANGGRAPH_END:
            return
    raise GraphRecursionError(f"the turn has not ended after {limit} states")


async def _steps_of_walk(graph: CompiledGraph, turn: Turn, runtime: TurnRuntime, end_state: EndState) -> AsyncGenerator[Step]:
    """Yield the steps of `walk` after its end, also those before an exception."""
    steps: list[Step] = []

    async def on_step(step: Step) -> None:
        steps.append(step)

    failure: Exception | None = None
    try:
        await walk(graph, turn, runtime, end_state, on_step)
    except Exception as exc:
        failure = exc
    for step in steps:
        yield step
    if failure is not None:
        raise failure

"""The graph for LangGraph Studio: `langgraph dev` loads it from `langgraph.json`.

It has the nodes and edges of the topology. Each node waits for the next step of a turn that the chat service runs, so a turn in
Studio is recorded and guarded like any other, and a thread of Studio is a conversation. Studio's state holds plain JSON values:
it needs no schema of the runtime's own objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import Field
from typing_extensions import TypedDict

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.chat.answer import ChatAnswer
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph import topology
from graph_agent.graph.build import CompiledGraph, build_graph, topology_of
from graph_agent.graph.step_summary import summarize
from graph_agent.graph.stepping import Step
from graph_agent.settings import Settings, read_settings
from graph_agent.turn.handle import TurnHandle


class StudioInput(TypedDict):
    """The message that begins a turn. A yes or no answers the question of the turn before."""

    message: Annotated[str, Field(min_length=1, description="What you say to the agent.")]


class StudioOutput(TypedDict, total=False):
    """The result of a turn."""

    conversation_id: str
    decision_id: str
    reply: str
    decision: dict[str, Any]


class StudioChange(StudioOutput, total=False):
    """The value that a node returns."""

    outcome: str
    """The label by which the topology selects the next node."""
    changes: dict[str, str]
    """The changes of the node in the turn, one line for each field."""


class StudioState(StudioInput, StudioChange):
    """The state that Studio shows and stores after each node."""


StudioGraph = CompiledStateGraph[StudioState, None, StudioInput, StudioOutput]


@asynccontextmanager
async def studio_graph() -> AsyncGenerator[StudioGraph]:
    """Yield the graph, with the settings of the environment. Studio opens one for each request."""
    async with open_studio_graph() as graph:
        yield graph


@asynccontextmanager
async def open_studio_graph(build: Callable[[], CompiledGraph] = build_graph) -> AsyncGenerator[StudioGraph]:
    """Yield Studio's form of the graph that `build` returns, such as one with states of your own."""
    turns = _Turns(read_settings(), build)
    try:
        yield build_studio_graph(turns)
    finally:
        await turns.aclose()


class _Turns:
    """Runs the turns of one opened graph, in a runtime that the first of them opens: drawing the graph needs none."""

    def __init__(self, settings: Settings, build: Callable[[], CompiledGraph] = build_graph) -> None:
        self._settings = settings
        self.build = build
        self._closing = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._running: dict[str, tuple[TurnHandle[ChatAnswer], AsyncIterator[Step]]] = {}

    async def begin(self, message: str, conversation_id: str | None) -> str:
        """Start a turn and return its decision id. Raises `ServiceError` or `ConfigurationError`."""
        opened: asyncio.Future[Runtime] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(opened))
        runtime = await opened
        run = await runtime.chat.start(LOCAL_USER, message, conversation_id=conversation_id)
        # Only a message with an idempotency key can have been answered before.
        assert isinstance(run, TurnHandle)
        self._running[run.decision_id] = run, run.stream_steps()
        return run.decision_id

    async def next_step(self, decision_id: str) -> tuple[Step, ChatAnswer | None]:
        """Return the next step of a turn, with the answer after the last one. Raises `ServiceError` if the turn has ended."""
        if decision_id not in self._running:
            raise _turn_has_ended()
        run, steps = self._running[decision_id]
        step = await anext(steps, None)
        if step is None:
            raise run.failure or _turn_has_ended()
        ends = step.entered == topology.END
        return step, await run.result() if ends else None

    async def aclose(self) -> None:
        """Close the runtime, which ends a turn that is still running."""
        self._closing.set()
        if self._serving is not None:
            await asyncio.wait({self._serving})

    async def _serve(self, opened: asyncio.Future[Runtime]) -> None:
        """Keep the runtime open until `aclose`. MCP sessions must be closed by the task that has opened them."""
        try:
            async with open_runtime(self._settings, build=self.build) as runtime:
                opened.set_result(runtime)
                await self._closing.wait()
        except Exception as exc:
            if opened.done():
                raise
            opened.set_exception(exc)


def build_studio_graph(turns: _Turns) -> StudioGraph:
    """Compile the graph of Studio from the topology of the runtime's graph."""
    graph: StateGraph[StudioState, None, StudioInput, StudioOutput] = StateGraph(
        StudioState, input_schema=StudioInput, output_schema=StudioOutput
    )
    for state, outcomes in topology_of(turns.build()).items():
        graph.add_node(state, _node(state, turns))
        targets: dict[Hashable, str] = {
            outcome: END if target == topology.END else target for outcome, target in outcomes.items()
        }
        graph.add_conditional_edges(state, _outcome, targets)
    graph.add_edge(START, topology.START)
    return graph.compile(name="graph_agent")


def _node(state: str, turns: _Turns) -> Callable[..., Awaitable[StudioChange]]:
    async def run(studio: StudioState) -> StudioChange:
        if state == topology.START:
            decision_id = await turns.begin(studio["message"], studio.get("conversation_id"))
        else:
            decision_id = studio["decision_id"]
        step, answer = await turns.next_step(decision_id)
        change = StudioChange(decision_id=decision_id, outcome=step.outcome, changes=summarize(step))
        if answer is not None:
            change |= StudioChange(
                conversation_id=answer.conversation_id,
                reply=answer.reply,
                decision=answer.decision.to_json(),
            )
        return change

    return run


def _outcome(studio: StudioState) -> str:
    return studio["outcome"]


def _turn_has_ended() -> ServiceError:
    return ServiceError(ServiceErrorCode.OUTCOME_UNKNOWN, "This turn has ended: send a message to begin another one.")

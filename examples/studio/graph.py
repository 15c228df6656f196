"""The graph for LangGraph Studio: `langgraph dev` loads it by the `langgraph.json` beside it.

It has the nodes and edges of the topology. Each node waits for the next step of a turn that the chat service runs, so a turn in
Studio is recorded and guarded like any other, and a thread of Studio is a conversation. Studio's state holds plain JSON values:
it needs no schema of the runtime's own objects.

LangGraph runs a node again after a failure, and from any older checkpoint. The first node begins one turn for each task, and
each other node does only the step that follows its checkpoint.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from langgraph.config import get_config
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import Field

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.opened import OpenedByTask
from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.chat.answer import ChatAnswer
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph import topology
from graph_agent.graph.build import CompiledGraph, shipped_graph, topology_of
from graph_agent.graph.step import Step
from graph_agent.graph.step_summary import summarize
from graph_agent.models.canonical import digest
from graph_agent.models.decision import ShownQuestion
from graph_agent.settings import Settings, read_settings
from graph_agent.turn.handle import TurnHandle


class StudioInput(MessagesState, total=False):
    """The message that begins a turn, by itself or as the last of `messages`. A yes or no answers the question before it."""

    message: Annotated[str, Field(description="What you say to the agent.")]


class StudioOutput(MessagesState, total=False):
    """The result of a turn."""

    conversation_id: str
    decision_id: str
    reply: str
    decision: dict[str, Any]


class StudioState(StudioInput, StudioOutput, total=False):
    """The state that Studio shows and stores after each node."""

    outcome: str
    """The label by which the topology selects the next node."""
    changes: dict[str, str]
    """The changes of the node in the turn, one line for each field."""
    steps: int
    """The number of nodes of the turn that have run."""


StudioGraph = CompiledStateGraph[StudioState, None, StudioInput, StudioOutput]


@asynccontextmanager
async def studio_graph() -> AsyncGenerator[StudioGraph]:
    """Yield the graph, with the settings of the environment. Studio opens one for each request."""
    async with open_studio_graph() as graph:
        yield graph


@asynccontextmanager
async def open_studio_graph(build: Callable[[], CompiledGraph] = shipped_graph) -> AsyncGenerator[StudioGraph]:
    """Yield Studio's form of the graph that `build` returns, such as one with states of your own."""
    key = asyncio.get_running_loop(), build
    turns = _open_turns.setdefault(key, _Turns(read_settings(), build))
    turns.requests += 1
    try:
        yield build_studio_graph(turns)
    finally:
        turns.requests -= 1
        if turns.is_idle:
            _open_turns.pop(key, None)
            await turns.aclose()


@dataclass(slots=True)
class _RunningTurn:
    """A turn that waits for its next node."""

    run: TurnHandle[ChatAnswer]
    steps: AsyncIterator[Step]
    requested: int = 0
    """The number of steps that nodes of Studio have asked for."""


class _Turns:
    """Runs the turns of all requests, in a runtime that the first of them opens: drawing the graph needs none.

    A request ends where Studio pauses, and another one continues the turn: the runtime stays open while a turn is running.
    """

    def __init__(self, settings: Settings, build: Callable[[], CompiledGraph] = shipped_graph) -> None:
        self._settings = settings
        self.build = build
        self.requests = 0
        self._opened: OpenedByTask[Runtime] | None = None
        self._running: dict[str, _RunningTurn] = {}

    @property
    def is_idle(self) -> bool:
        """True if there is neither a request nor a turn that a later one can continue."""
        return self.requests == 0 and not any(turn.run.is_running for turn in self._running.values())

    async def begin(self, task: str, message: str, conversation_id: str | None, shown: ShownQuestion | None) -> str:
        """Start the turn of a task of LangGraph and return its decision id.

        Raises `ServiceError`, also if the task has begun its turn before, or `ConfigurationError`.
        """
        runtime = await self._runtime()
        run = await runtime.chat.start(
            LOCAL_USER, message, conversation_id=conversation_id, shown=shown, idem_key=task, stepwise=True
        )
        if not isinstance(run, TurnHandle):
            raise _turn_has_ended()
        self._running[run.decision_id] = _RunningTurn(run, run.stream_steps())
        return run.decision_id

    async def next_step(self, decision_id: str, ran: int) -> tuple[Step, ChatAnswer | None]:
        """Run the node of a turn that follows the `ran` first ones and return its step, with the answer after the last one.

        The first node has run when the turn has begun. Raises `ServiceError` if the turn has ended, or has gone further.
        """
        turn = self._running.get(decision_id)
        if turn is None:
            raise _turn_has_ended()
        if turn.requested != ran:
            raise ServiceError(
                ServiceErrorCode.CONVERSATION_BUSY, "This turn has gone on from here: continue its last checkpoint."
            )
        turn.requested += 1
        run = turn.run
        if ran:
            run.request_step()
        step = await anext(turn.steps, None)
        if step is None:
            raise run.failure or _turn_has_ended()
        if step.entered != topology.END:
            return step, None
        run.request_step()
        del self._running[decision_id]
        return step, await run.result()

    async def aclose(self) -> None:
        """Close the runtime, which ends a turn that is still running."""
        if self._opened is not None:
            await self._opened.aclose()

    async def _runtime(self) -> Runtime:
        if self._opened is None or self._opened.failed:
            self._opened = OpenedByTask(open_runtime(self._settings, build=self.build))
        return await self._opened.value()


_open_turns: dict[tuple[AbstractEventLoop, Callable[[], CompiledGraph]], _Turns] = {}
"""The state that the requests of an event loop share."""


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


def _node(state: str, turns: _Turns) -> Callable[..., Awaitable[dict[str, Any]]]:
    async def run(studio: StudioState) -> dict[str, Any]:
        change: dict[str, Any] = {}
        ran = 0 if state == topology.START else studio["steps"]
        if not ran:
            message = _message(studio)
            # Without the message, so that other input does not run it again.
            change = {"message": "", "messages": [{"role": "user", "content": message}] if studio.get("message") else []}
            decision_id = await turns.begin(_task(), message, studio.get("conversation_id"), _shown(studio))
        else:
            decision_id = studio["decision_id"]
        step, answer = await turns.next_step(decision_id, ran)
        change |= {"decision_id": decision_id, "outcome": step.outcome, "changes": summarize(step), "steps": ran + 1}
        if answer is not None:
            change |= {
                "conversation_id": answer.conversation_id,
                "reply": answer.reply,
                "decision": answer.decision.to_json(),
                "messages": [{"role": "assistant", "content": answer.reply, "id": decision_id}],
            }
        return change

    return run


def _task() -> str:
    """Return the key of the task of LangGraph that is running. It depends on the checkpoint that the task starts from."""
    configurable = get_config()["configurable"]
    return digest([configurable.get("thread_id"), configurable["checkpoint_ns"]])


def _message(studio: StudioState) -> str:
    """Return the message that has no turn yet; an empty one, which is refused, if there is none."""
    messages = studio.get("messages")
    said = messages[-1].text if messages and messages[-1].type == "human" else ""
    return studio.get("message") or said


def _shown(studio: StudioState) -> ShownQuestion | None:
    """Return the question that the thread shows: a yes in it answers no other one. None before its first turn."""
    if "decision" not in studio:
        return None
    pending = studio["decision"].get("pending_action")
    return ShownQuestion(pending_action=None if pending is None else pending["id"])


def _outcome(studio: StudioState) -> str:
    return studio["outcome"]


def _turn_has_ended() -> ServiceError:
    return ServiceError(ServiceErrorCode.OUTCOME_UNKNOWN, "This turn has ended: send a message to begin another one.")

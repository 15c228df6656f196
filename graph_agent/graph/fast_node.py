"""The fast path through a compiled graph: the only module that uses private names of LangGraph."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END
from langgraph.runtime import ExecutionInfo, Runtime

from graph_agent.graph.state import Turn, TurnRuntime

Node = Callable[[Turn, TurnRuntime], Awaitable[Turn]]
"""The function of a state."""

Edge = Mapping[str, str]
"""The next node for each outcome of a node; LangGraph's END after the last one."""

_SEND = "__pregel_send"
_RUNTIME = "__pregel_runtime"
BRANCH = "branch:to:{}"
"""LangGraph's name of the channel that triggers a node."""


class FastNode(Runnable[Any, Any]):
    """Runs a node, follows the declared edge after it, and writes its turn and the next node's trigger, all as one step.

    LangGraph runs a node as a sequence: the node in a separate task, then each write, each with a new configuration and
    callbacks. That is most of what a turn costs. Where a callback handler is present (tracing), the sequence runs as usual,
    because handlers are called for each of its parts.

    Where LangGraph does not have its private names, nothing is replaced, and the graph takes the same steps.
    """

    def __init__(self, work: Node, edge: Edge, sequence: Runnable[Any, Any]) -> None:
        """`sequence` is LangGraph's own way to run the node."""
        self._work = work
        # What each outcome writes beside the turn: the trigger of the next node, and nothing before the end.
        self._triggers = {
            outcome: [] if entered == END else [(BRANCH.format(entered), None)] for outcome, entered in edge.items()
        }
        self._sequence = sequence

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 (LangChain's signature)
        return self._sequence.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 (LangChain's signature)
        configurable = (config or {}).get("configurable", {})
        send, runtime = configurable.get(_SEND), configurable.get(_RUNTIME)
        if send is None or runtime is None or _has_handlers(config):
            return await self._sequence.ainvoke(input, config, **kwargs)
        turn = await self._work(input["turn"], runtime.context)
        send([("turn", turn), *self._triggers[turn.outcome]])
        return {"turn": turn}


def install_fast_nodes(compiled: Any, work: Mapping[str, Node], edges: Mapping[str, Edge] | None) -> bool:
    """Replace the sequence of every node of a compiled graph; return False, without a change, if LangGraph has to run it.

    That is so if its internals differ, or without `edges`, because one is not declared by this package. `work` has each node's
    function.
    """
    triggers = {BRANCH.format(name) for name in work}
    found = {name: getattr(compiled.nodes.get(name), "node", None) for name in work}
    sequences = {name: sequence for name, sequence in found.items() if isinstance(sequence, Runnable)}
    if edges is None or not edges.keys() == work.keys() == sequences.keys() or not triggers <= compiled.channels.keys():
        return False
    for name, function in work.items():
        # `node` is a cached property: the value set here is the one that is read.
        compiled.nodes[name].node = FastNode(function, edges[name], sequences[name])
    return True


_NO_INFO: Final = ExecutionInfo(checkpoint_id="", checkpoint_ns="", task_id="")


class _NodeRuntime(Runtime[TurnRuntime]):
    """The runtime of all nodes of a turn. LangGraph would copy it three times for each, to describe its execution."""

    def override(self, **_: Any) -> _NodeRuntime:
        return self

    def patch_execution_info(self, **_: Any) -> _NodeRuntime:
        return self


class _TurnRuntimeSeed(Runtime[TurnRuntime]):
    """Makes LangGraph give its nodes a `_NodeRuntime`. A graph that a node runs has a runtime of its own again."""

    def merge(self, other: Runtime[TurnRuntime]) -> _NodeRuntime:
        given = {field.name: getattr(other, field.name) for field in fields(other)}
        return _NodeRuntime(**{**given, "execution_info": _NO_INFO})


def lean_configurable(context: TurnRuntime) -> dict[str, Any]:
    """Return the configurable values of a run whose nodes share one runtime.

    No node of a turn reads LangGraph's information about its execution, which is a twelfth of the graph's time. Where LangGraph
    does not have the private name, these values have no effect.
    """
    return {_RUNTIME: _TurnRuntimeSeed(context=context)}


def _has_handlers(config: RunnableConfig | None) -> bool:
    callbacks = (config or {}).get("callbacks")
    return bool(getattr(callbacks, "handlers", callbacks))

"""A faster way to run LangGraph's nodes: each node and the writes after it run as one step.

LangGraph runs a node as a sequence: the node in a separate task, then each write, each with a new configuration and callbacks.
That is most of what a turn costs. A `FastNode` does the same work and the same writes directly. Where a callback handler is
present (tracing), the sequence runs as usual, because handlers are called for each of its parts.

This uses private names of LangGraph. Where they are missing, nothing is replaced, and the graph takes the same steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from graph_agent.graph import topology
from graph_agent.graph.state import Turn, TurnRuntime

_SEND = "__pregel_send"
_RUNTIME = "__pregel_runtime"
_BRANCH = "branch:to:{}"

Work = Callable[[Turn, TurnRuntime], Awaitable[Turn]]


class FastNode(Runnable[Any, Any]):
    """Runs a node and writes its turn and the next node's trigger."""

    def __init__(self, work: Work, channels: Mapping[str, str | None], sequence: Runnable[Any, Any]) -> None:
        """`channels` maps each outcome to the channel that triggers the next node, None at the end of the graph. `sequence` is
        LangGraph's own way to run the node."""
        self._work = work
        self._channels = channels
        self._sequence = sequence

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 (LangChain's signature)
        return self._sequence.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 (LangChain's signature)
        configurable = (config or {}).get("configurable", {})
        send, runtime = configurable.get(_SEND), configurable.get(_RUNTIME)
        if send is None or runtime is None or _has_handlers(config):
            return await self._sequence.ainvoke(input, config, **kwargs)
        turn = await self._work(input["turn"], runtime.context)
        channel = self._channels[turn.outcome]
        send([("turn", turn)] if channel is None else [("turn", turn), (channel, None)])
        return {"turn": turn}


def install(nodes: Mapping[str, Any], channels: Mapping[str, Any], work: Mapping[str, Work]) -> bool:
    """Replace the sequence of every node of a compiled graph; return False, without a change, if LangGraph's internals differ.

    `nodes` and `channels` are those of the compiled graph, `work` has the function of each node.
    """
    fast = {}
    for name, function in work.items():
        targets = topology.TOPOLOGY[name]
        triggers = {outcome: None if to == topology.END else _BRANCH.format(to) for outcome, to in targets.items()}
        sequence = getattr(nodes[name], "node", None)
        if not isinstance(sequence, Runnable) or not {*filter(None, triggers.values())} <= channels.keys():
            return False
        fast[name] = FastNode(function, triggers, sequence)
    for name, node in fast.items():
        # `node` is a cached property: the value set here is the one that is read.
        nodes[name].node = node
    return True


def _has_handlers(config: RunnableConfig | None) -> bool:
    callbacks = (config or {}).get("callbacks")
    return bool(getattr(callbacks, "handlers", callbacks))

"""TIMEOUT_RESPONSE: the cap is an ordinary outcome with an honest answer."""

from __future__ import annotations

from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.reply.fixed import CAP_REPLY


async def timeout_response(turn: Turn, runtime: TurnRuntime) -> Turn:  # noqa: ARG001 (all nodes have one shape)
    return turn.to("answered", ending=Ending(EndingKind.CAP, CAP_REPLY))

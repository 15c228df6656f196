"""ERROR_RESPONSE: replies to a failure with a fixed sentence."""

from __future__ import annotations

from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.reply.authored import by_code
from graph_agent.reply.fixed import failure_reply


async def error_response(turn: Turn, runtime: TurnRuntime) -> Turn:  # noqa: ARG001 (the signature of a node)
    error = turn.ending.error if turn.ending else None
    cause = turn.response.cause if turn.response else None
    return turn.to("answered", ending=Ending.of(EndingKind.FAILURE, by_code(failure_reply(error, cause)), error=error))

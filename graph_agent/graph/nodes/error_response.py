"""ERROR_RESPONSE: replies to a failure with a fixed sentence, and with what was read if the model only repeated its calls."""

from __future__ import annotations

from dataclasses import replace

from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.reply.authored import by_code
from graph_agent.reply.fixed import failure_reply
from graph_agent.words.repeated import repeated_reply


async def error_response(turn: Turn, runtime: TurnRuntime) -> Turn:
    error, found = (turn.ending.error, turn.ending.cause) if turn.ending else (None, None)
    cause = found or (turn.response.cause if turn.response else None)
    text = repeated_reply(turn.calls, runtime.snapshot.policy) if turn.repeating else by_code(failure_reply(error, cause))
    return turn.to("answered", ending=replace(Ending.of(EndingKind.FAILURE, text, error=error), cause=found))

"""TIMEOUT_RESPONSE: replies that the limit of iterations was reached."""

from __future__ import annotations

from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.reply.authored import by_code
from graph_agent.reply.fixed import CAP_REPLY
from graph_agent.words.repeated import repeated_reply


async def timeout_response(turn: Turn, runtime: TurnRuntime) -> Turn:
    text = repeated_reply(turn.calls, runtime.snapshot.policy) if turn.repeating else by_code(CAP_REPLY)
    return turn.to("answered", ending=Ending.of(EndingKind.CAP, text))

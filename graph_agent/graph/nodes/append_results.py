"""APPEND_RESULTS: appends one function response for each call: its result, refusal or error."""

from __future__ import annotations

from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.transcript import this_round, with_round


async def append_results(turn: Turn, runtime: TurnRuntime) -> Turn:
    assert turn.request is not None
    assert turn.response is not None
    request = with_round(turn.request, turn.response, this_round(turn), runtime.snapshot.policy)
    return turn.to("appended", request=request)

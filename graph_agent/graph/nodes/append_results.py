"""APPEND_RESULTS: appends one function response for each call: its result, refusal or error."""

from __future__ import annotations

from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.transcript import this_round, with_confirmed_calls, with_round


async def append_results(turn: Turn, runtime: TurnRuntime) -> Turn:
    assert turn.prompt is not None
    policy = runtime.snapshot.policy
    if (confirmed := turn.unused_yes) is not None:
        return turn.to("appended", prompt=with_confirmed_calls(turn.prompt, confirmed, this_round(turn), policy))
    assert turn.response is not None
    return turn.to("appended", prompt=with_round(turn.prompt, turn.response, turn, runtime.snapshot))

"""CHECK_ITERATIONS: counts the finished round and ends the loop at the limit, or if the model repeats itself.

A round that only repeats calls since the last change, with the same results, gives the model nothing new: it would go on until
the limit. The model is then asked once more, with the reply forms as the only functions, for its answer.
"""

from __future__ import annotations

from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.transcript import this_round
from graph_agent.models.record import CallDisposition
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.forms import REPLY_FORMS


async def check_iterations(turn: Turn, runtime: TurnRuntime) -> Turn:
    iterations = turn.iterations + 1
    repeating = _repeats_itself(turn, runtime.snapshot.policy)
    if iterations >= runtime.snapshot.config.max_iterations:
        return turn.to("cap_reached", iterations=iterations, repeating=repeating)
    prompt = turn.prompt
    if repeating and prompt is not None:
        prompt = prompt.with_tools_named(REPLY_FORMS)
    return turn.to("below_cap", iterations=iterations, repeating=repeating, prompt=prompt)


def _repeats_itself(turn: Turn, policy: CompiledPolicy) -> bool:
    """Return True if every call of the finished round was made since the last change of this turn, with the same result.

    A read after a change says that the change has not touched what it reads, which is new.
    """
    calls = this_round(turn)
    earlier = turn.calls[: len(turn.calls) - len(calls)]
    changes = [place for place, call in enumerate(earlier) if _is_change(call, policy)]
    since = earlier[changes[-1] :] if changes else earlier
    return bool(calls) and all(any(_is_same(call, before) for before in since) for call in calls)


def _is_change(call: TurnCall, policy: CompiledPolicy) -> bool:
    return call.disposition is CallDisposition.EXECUTED and call.result.may_be_done and policy.is_write(call.call.name)


def _is_same(call: TurnCall, before: TurnCall) -> bool:
    return (call.call.name, call.arguments, call.result) == (before.call.name, before.arguments, before.result)

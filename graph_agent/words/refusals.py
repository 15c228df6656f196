"""Notices for the calls of a turn that code refused, with the rule in the user's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graph_agent.models.record import CallDisposition
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.fixed import refused
from graph_agent.reply.text import counted, one_line
from graph_agent.words.reasons import rule_of
from graph_agent.words.said import in_line, said_in_turn

_MADE = frozenset({CallDisposition.EXECUTED, CallDisposition.REPEATED, CallDisposition.AWAITING, CallDisposition.WAITS})


def refusal_notices(calls: Sequence[TurnCall], policy: CompiledPolicy, *, reported: int = 0) -> Iterator[str]:
    """Yield one notice for each rule that refused calls of a turn, in the order of the calls.

    A call that the model corrected is not named. Neither are the first ones that the reply has `reported`.
    """
    by_rule: dict[str, list[TurnCall]] = {}
    for call in calls[reported:]:
        if call.disposition is CallDisposition.REFUSED and not _was_corrected(call, calls):
            by_rule.setdefault(rule_of(call), []).append(call)
    for rule, refused_calls in by_rule.items():
        described = [_describe(call, policy) for call in refused_calls]
        known = list(dict.fromkeys(text for text in described if text))
        # The name of a tool that does not exist is the model's, and says nothing to the user.
        unknown = described.count("")
        yield refused([*known, *([counted(unknown, "action")] if unknown else [])], rule)


def _was_corrected(call: TurnCall, calls: Sequence[TurnCall]) -> bool:
    """True if the model made the call later: the same one, or after invalid arguments any of the same tool."""
    return any(
        later.iteration > call.iteration
        and later.disposition in _MADE
        and later.call.name == call.call.name
        and (call.has_invalid_arguments or later.arguments == call.arguments)
        for later in calls
    )


def _describe(call: TurnCall, policy: CompiledPolicy) -> str:
    """Return the action as a question about it would name it; empty for a tool without a rule."""
    rule = policy.rules.get(call.call.name)
    if rule is None:
        return ""
    if call.has_invalid_arguments or not call.arguments:
        return one_line(rule.title)
    return in_line(said_in_turn(call, rule))

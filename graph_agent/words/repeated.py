"""The reply to a turn whose model repeated its calls instead of answering: what was read, composed by code."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.models.record import CallDisposition
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.authored import Parts, by_code
from graph_agent.reply.fixed import REPEATED_AND_FAILED_REPLY, REPEATED_REPLY
from graph_agent.words.receipts import quoted_refusal
from graph_agent.words.results import in_reply, result_rows
from graph_agent.words.said import in_line, said_in_turn

_MAX_RESULTS = 3
"""The number of results that are said, the last ones."""


def repeated_reply(calls: Sequence[TurnCall], policy: CompiledPolicy) -> Parts:
    """Return the reply: the results of the reads of the turn, or what the last call failed with."""
    read = {(call.call.name, str(call.arguments)): call for call in calls if _was_read(call, policy)}
    last = calls[-1]
    rule = policy.rules.get(last.call.name)
    if read:
        results = [_read(call, policy.rules[call.call.name]) for call in list(read.values())[-_MAX_RESULTS:]]
        return by_code(REPEATED_REPLY) + tuple(part for result in results for part in result)
    if last.disposition is CallDisposition.EXECUTED and not last.result.may_be_done and rule is not None:
        return by_code(REPEATED_AND_FAILED_REPLY) + quoted_refusal(rule, last.result) + _rows(last, rule)
    return by_code(REPEATED_REPLY)


def _read(call: TurnCall, rule: ToolRule) -> Parts:
    """Return a read in words, and what it has returned."""
    return by_code(f"\n\n{in_line(said_in_turn(call, rule))}:") + (_rows(call, rule) or by_code(" nothing"))


def _rows(call: TurnCall, rule: ToolRule) -> Parts:
    return in_reply(result_rows(rule, call.arguments, said_in_turn(call, rule), call.result))


def _was_read(call: TurnCall, policy: CompiledPolicy) -> bool:
    return call.disposition is CallDisposition.EXECUTED and call.result.success and not policy.is_write(call.call.name)

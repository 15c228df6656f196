"""The reply to a turn whose model repeated its calls instead of answering: what was read, composed by code."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.models.record import CallDisposition
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.authored import Parts, by_code
from graph_agent.reply.fixed import REPEATED_AND_FAILED_REPLY, REPEATED_REPLY
from graph_agent.words.readable import readable_data
from graph_agent.words.receipts import quoted_refusal, quoted_result

_MAX_RESULTS = 3
"""The number of results that are quoted, the last ones."""


def repeated_reply(calls: Sequence[TurnCall], policy: CompiledPolicy) -> Parts:
    """Return the reply: the results of the reads of the turn, or what the last call failed with."""
    read = {(call.call.name, str(call.arguments)): call for call in calls if _was_read(call, policy)}
    last = calls[-1]
    rule = policy.rules.get(last.call.name)
    if read:
        quotes = [_quoted(call, policy) for call in list(read.values())[-_MAX_RESULTS:]]
        return by_code(REPEATED_REPLY) + tuple(part for quote in quotes for part in quote)
    if last.disposition is CallDisposition.EXECUTED and not last.result.may_be_done and rule is not None:
        return by_code(REPEATED_AND_FAILED_REPLY) + quoted_refusal(rule, last.result) + quoted_result(rule, last.result)
    return by_code(REPEATED_REPLY)


def _quoted(call: TurnCall, policy: CompiledPolicy) -> Parts:
    rule = policy.rules[call.call.name]
    data = call.result.data if rule.traits.unread is None else readable_data(call.result.data, rule.traits.unread)
    return quoted_result(rule, call.result.model_copy(update={"data": data}))


def _was_read(call: TurnCall, policy: CompiledPolicy) -> bool:
    return call.disposition is CallDisposition.EXECUTED and call.result.success and not policy.is_write(call.call.name)

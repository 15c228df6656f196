"""Reports of calls in the words of code, for calls that no model reports; what their servers returned is their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graph_agent.errors import ToolErrorCode
from graph_agent.models.decision import PendingCall
from graph_agent.models.llm import LLMErrorCause
from graph_agent.models.record import CallDisposition
from graph_agent.models.said import SaidCall, SaidState
from graph_agent.policy.committed import MADE, reads_like_failure
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.reasons import ReasonCode
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply import fixed
from graph_agent.reply.authored import Parts, by_code, by_server, capitalized, joined
from graph_agent.reply.text import clean_reply, one_line
from graph_agent.words.reasons import rule_of
from graph_agent.words.receipts import added_rows, confirmed_reply, quoted_refusal
from graph_agent.words.results import in_reply, result_rows
from graph_agent.words.said import brief_of, in_line, said_in_turn

_MAX_SAID = 1_000
_MAX_WHY = 300
_MADE_LATER = frozenset({CallDisposition.EXECUTED, CallDisposition.AWAITING, CallDisposition.WAITS})


def report_call(call: TurnCall, policy: CompiledPolicy) -> Parts:
    """Return the reply about one call."""
    rule = policy.rules.get(call.call.name)
    if rule is not None and call.disposition in MADE and (refusal := quoted_refusal(rule, call.result)):
        return by_code(fixed.TOOL_REFUSED_REPLY) + refusal + _rows_of(call, rule)
    failed = by_code(fixed.failed_call_reply(call.result.error_code, unknown=call.result.unknown))
    if rule is None:
        return failed
    if call.disposition is CallDisposition.REFUSED and call.result.error_code is ToolErrorCode.ACCESS_DENIED:
        # The conditions were asked again after the yes.
        return by_code(fixed.refused([_line_of(call, rule)], rule_of(call)))
    return _reply(call, rule) if call.result.success else failed + _rows_of(call, rule)


def report_confirmed(
    calls: Sequence[TurnCall],
    shown: Sequence[PendingCall],
    policy: CompiledPolicy,
    *,
    interrupted: bool,
    approved: bool,
    forbidden: LLMErrorCause | None = None,
) -> Parts:
    """Return the reply about the calls that were confirmed as they were `shown`; `approved` means by other people.

    `forbidden` says what an operator did by which the turn was `interrupted`.
    """
    if len(calls) > 1:
        each = zip(calls, shown, strict=True)
        return joined("\n\n", [_report_one_of_several(call, one, policy) for call, one in each])
    if interrupted and not calls[0].result.may_be_done:
        if forbidden is not None:
            return by_code(fixed.FORBIDDEN_NOT_DONE[forbidden])
        return by_code(fixed.APPROVED_NOT_DONE if approved else fixed.CONFIRMED_NOT_DONE)
    return report_call(calls[0], policy)


def calls_said(calls: Sequence[TurnCall], policy: CompiledPolicy, *, confirmed: int = 0) -> Iterator[SaidCall]:
    """Yield the changes of a turn, and the calls that were refused, as people read them.

    The first ones were `confirmed`, and are among them also if they only read.
    """
    for call in calls:
        rule = policy.rules.get(call.call.name)
        if rule is None or call.said is None:
            continue
        if not (rule.mutating or call.disposition is CallDisposition.REFUSED or call.sequence <= confirmed):
            continue
        state = _state(call, rule)
        why = rule_of(call)
        if state is SaidState.NOT_DONE:
            # A server's words, or code's.
            why = one_line(rule.user_text(call.result.error or ""), _MAX_WHY)
        result = added_rows(rule, call.arguments, call.said, call.result) if state is SaidState.DONE else ()
        yield SaidCall(sequence=call.sequence, state=state, said=call.said, result=result, why=why)


def _state(call: TurnCall, rule: ToolRule) -> SaidState:
    known = {
        CallDisposition.AWAITING: SaidState.ASKED,
        CallDisposition.WAITS: SaidState.WAITS,
        CallDisposition.REFUSED: SaidState.REFUSED,
    }
    if call.disposition in known:
        return known[call.disposition]
    if call.disposition not in MADE or not call.result.may_be_done:
        return SaidState.NOT_DONE
    if call.result.success and not reads_like_failure(rule, call.result):
        return SaidState.DONE
    return SaidState.UNKNOWN if rule.mutating else SaidState.NOT_DONE


def notices_of_undone(calls: Sequence[TurnCall], shown: Sequence[PendingCall]) -> Iterator[str]:
    """Yield a notice for each confirmed call that was not done, and is not asked for or made again later in the turn.

    `calls` are those of the turn, the confirmed ones first, as they were `shown`.
    """
    for call, one in zip(calls, shown, strict=False):
        is_undone = call.disposition is CallDisposition.EXECUTED and not call.result.may_be_done
        if (is_undone or call.disposition is CallDisposition.SKIPPED) and not _follows(call, calls):
            yield fixed.not_done(brief_of(one), _why_undone(call))


def notices_for_user(calls: Sequence[TurnCall], policy: CompiledPolicy) -> Iterator[Parts]:
    """Yield what servers returned for the user and not for the model, as their words."""
    for call in calls:
        rule = policy.rules.get(call.call.name)
        if rule is None or call.disposition not in MADE or not call.result.for_user:
            continue
        if said := one_line(clean_reply(call.result.for_user, rule.hidden), _MAX_SAID):
            yield by_code(f"For you, from '{rule.title}': ") + by_server(said)


def _follows(call: TurnCall, calls: Sequence[TurnCall]) -> bool:
    """True if the model requested the same call again, and it was made, or the user is asked about it."""
    later = calls[call.sequence :]
    return any(one.disposition in _MADE_LATER and _requested(one) == _requested(call) for one in later)


def _requested(call: TurnCall) -> tuple[str, object]:
    return call.call.name, call.arguments


def _report_one_of_several(call: TurnCall, shown: PendingCall, policy: CompiledPolicy) -> Parts:
    """Return the line about one call of a card. It names the action, because each line is about another one."""
    rule = policy.rules.get(call.call.name)
    rows = () if rule is None else _rows_of(call, rule)
    if rule is not None and call.disposition in MADE:
        # Why it failed is quoted from its server; of a call that was not sent, the text of the error is our own.
        rows = quoted_refusal(rule, call.result) + rows
    if rule is not None and call.result.success:
        return _reply(call, rule)
    if call.result.unknown:
        return capitalized(call.receipt) + by_code(f". {fixed.CHECK_FIRST}") + rows
    why = rule_of(call) if call.disposition is CallDisposition.REFUSED else _why_undone(call)
    return by_code(fixed.not_done(brief_of(shown), why)) + rows


def _reply(call: TurnCall, rule: ToolRule) -> Parts:
    return confirmed_reply(rule, call.arguments, said_in_turn(call, rule), call.result)


def _rows_of(call: TurnCall, rule: ToolRule) -> Parts:
    """Return what a server has returned about a call that was not done, as the end of a reply."""
    return in_reply(result_rows(rule, call.arguments, said_in_turn(call, rule), call.result))


def _line_of(call: TurnCall, rule: ToolRule) -> str:
    return in_line(said_in_turn(call, rule))


def _why_undone(call: TurnCall) -> str:
    if call.disposition is CallDisposition.EXECUTED:
        return fixed.IT_FAILED
    return fixed.STOPPED_BEFORE if call.is_because(ReasonCode.CARD_STOPPED) else ""

"""BUILD_DECISION: the single terminal node. It answers the calls still open and composes the `AgentDecision`."""

from __future__ import annotations

from graph_agent.errors import ToolErrorCode
from graph_agent.graph.state import EndingKind, Turn, TurnCall, TurnRuntime
from graph_agent.graph.transcript import extended, this_round, with_confirmed_call, with_round
from graph_agent.models.decision import AgentDecision, DecisionType, OutcomeCategory
from graph_agent.models.llm import LLMErrorCode, LLMMessage, LLMRequest
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolCall
from graph_agent.policy.intent import read_intent
from graph_agent.reply.fixed import with_receipts
from graph_agent.reply.plain_text import classify_reply
from graph_agent.policy.rules import Policy

_MADE = frozenset({CallDisposition.EXECUTED, CallDisposition.REFUSED, CallDisposition.REPEATED})
_FIXED_REPLY = frozenset({EndingKind.FAILURE, EndingKind.CAP})


async def build_decision(turn: Turn, runtime: TurnRuntime) -> Turn:
    ending = turn.ending
    assert ending is not None
    decision_type, outcome = _decide(turn, runtime.policy)
    text = ending.text
    if ending.kind in _FIXED_REPLY:
        told = [call for call in turn.calls if call.receipt]
        done = [call.receipt for call in told if call.receipt and not call.result.unknown]
        text = with_receipts(text, done, [call.receipt for call in told if call.receipt and call.result.unknown])
    asks = decision_type is DecisionType.ASK_CLARIFICATION
    wishes = [_wish(call) for call in turn.calls if call.disposition is not CallDisposition.SKIPPED]
    made = [_wish(call) for call in turn.calls if call.disposition in _MADE]
    decision = AgentDecision(
        decision_type=decision_type,
        tool_calls=made or None,
        response_text=None if asks else text,
        clarification_question=text if asks else None,
        pending_action=turn.pending if decision_type is DecisionType.REQUEST_CONFIRMATION else None,
        decision_id=turn.decision_id,
        intent=read_intent(decision_type, wishes),
        outcome_category=outcome,
        effects=[call.receipt for call in turn.calls if call.receipt],
    )
    return turn.to("decided", decision=decision, request=_closed(turn, decision.reply))


def _decide(turn: Turn, policy: Policy) -> tuple[DecisionType, OutcomeCategory]:
    """The decision table: one row for each way a turn ends."""
    ending = turn.ending
    assert ending is not None
    match ending.kind:
        case EndingKind.CONFIRMED:
            done = bool(turn.calls) and turn.calls[-1].result.success
            return DecisionType.EXECUTE_PENDING, (OutcomeCategory.TASK_COMPLETED if done else OutcomeCategory.TOOL_INVOCATION)
        case EndingKind.DECLINED:
            return DecisionType.CANCEL_PENDING, OutcomeCategory.RESPONSE_GIVEN
        case EndingKind.AWAITING:
            return DecisionType.REQUEST_CONFIRMATION, OutcomeCategory.RESPONSE_GIVEN
        case EndingKind.QUESTION:
            return DecisionType.ASK_CLARIFICATION, ending.reason or OutcomeCategory.UNCLEAR_INTENT
        case EndingKind.REFUSAL:
            return DecisionType.RESPOND_ONLY, OutcomeCategory.OUT_OF_SCOPE
        case EndingKind.FAILURE if ending.error is LLMErrorCode.RATE_LIMITED:
            return DecisionType.RESPOND_ONLY, OutcomeCategory.RATE_LIMITED
        case EndingKind.FAILURE | EndingKind.CAP:
            return DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GENERATION
        case EndingKind.ANSWER:
            return _answered(turn, policy)


def _answered(turn: Turn, policy: Policy) -> tuple[DecisionType, OutcomeCategory]:
    calls = turn.calls
    if not calls:
        after_question = _after_clarification(turn)
        return DecisionType.RESPOND_ONLY, (
            OutcomeCategory.CLARIFICATION_ANSWERED if after_question else OutcomeCategory.RESPONSE_GIVEN
        )
    if all(call.result.error_code is ToolErrorCode.ACCESS_DENIED and _refused(call) for call in calls):
        return DecisionType.RESPOND_ONLY, OutcomeCategory.MISSING_PERMISSION
    changes = [call for call in calls if (rule := policy.rules.get(call.call.name)) is not None and rule.mutating]
    succeeded = any(call.result.success for call in changes or calls)
    return DecisionType.INVOKE_TOOL, (OutcomeCategory.TASK_COMPLETED if succeeded else OutcomeCategory.TOOL_INVOCATION)


def _refused(call: TurnCall) -> bool:
    return call.disposition is CallDisposition.REFUSED


def _after_clarification(turn: Turn) -> bool:
    said = [message.content for message in turn.context.message_history if message.role == "assistant"]
    return bool(said) and classify_reply(said[-1]).kind == "clarification"


def _wish(call: TurnCall) -> ToolCall:
    return ToolCall(tool_name=call.call.name, parameters=call.arguments, sequence=call.sequence)


def _closed(turn: Turn, reply: str) -> LLMRequest | None:
    """The whole conversation: calls still open are answered, and the reply stands at its end."""
    request = turn.request
    if request is None:
        return None
    if turn.ending is not None and turn.ending.kind is EndingKind.CONFIRMED:
        request = with_confirmed_call(request, turn.calls[-1])
    elif turn.ending is not None and turn.ending.kind is EndingKind.AWAITING and turn.response is not None:
        request = with_round(request, turn.response, this_round(turn))
    return extended(request, LLMMessage(role="assistant", content=reply)) if reply else request

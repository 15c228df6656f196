"""BUILD_DECISION: the only terminal node. It composes the `AgentDecision` and responds to the calls that have no response."""

from __future__ import annotations

from graph_agent.errors import ToolErrorCode
from graph_agent.graph.intent import read_intent
from graph_agent.graph.refusals import refusal_notices
from graph_agent.graph.state import EndingKind, Turn, TurnCall, TurnRuntime
from graph_agent.graph.transcript import extended, this_round, with_confirmed_call, with_round
from graph_agent.models.authors import TextAuthor
from graph_agent.models.decision import AgentDecision, DecisionType, OutcomeCategory
from graph_agent.models.llm import LLMErrorCode, LLMMessage, LLMRequest
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolCall
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.receipts import is_committed
from graph_agent.reply.authored import by_code, name_authors, plain
from graph_agent.reply.fixed import as_notice, with_receipts

_IN_DECISION = frozenset({CallDisposition.EXECUTED, CallDisposition.REFUSED, CallDisposition.REPEATED})
"""The calls that the decision lists."""
_WITH_RECEIPTS = frozenset({EndingKind.FAILURE, EndingKind.CAP})
"""Endings whose fixed reply does not report the changes of the turn, so the receipts are added to it."""
_WITHOUT_INTENT = frozenset({EndingKind.FAILURE, EndingKind.VOID_ANSWER})
"""Endings without an answer of the model or of the user that shows an intent."""


async def build_decision(turn: Turn, runtime: TurnRuntime) -> Turn:
    ending = turn.ending
    assert ending is not None
    decision_type, outcome = _decide(turn, runtime.snapshot.policy)
    receipts = [
        (call.receipt, is_committed(runtime.snapshot.policy.rules[call.call.name], call.result))
        for call in turn.calls
        if call.receipt
    ]
    done = [receipt for receipt, committed in receipts if committed]
    uncertain = [receipt for receipt, committed in receipts if not committed]
    reply = with_receipts(ending.authored, done, uncertain) if ending.kind in _WITH_RECEIPTS else ending.authored
    notices = [
        *map(by_code, turn.notices),
        *map(as_notice, uncertain),
        *map(by_code, refusal_notices(turn, runtime.snapshot.policy)),
    ]
    text = plain(reply)
    asks = decision_type is DecisionType.ASK_CLARIFICATION
    requested = [_tool_call(call) for call in turn.calls if call.disposition is not CallDisposition.SKIPPED]
    listed = [_tool_call(call) for call in turn.calls if call.disposition in _IN_DECISION]
    decision = AgentDecision(
        decision_type=decision_type,
        tool_calls=listed or None,
        response_text=None if asks else text,
        clarification_question=text if asks else None,
        pending_action=turn.pending if decision_type is DecisionType.REQUEST_CONFIRMATION else None,
        decision_id=turn.decision_id,
        intent=read_intent(decision_type, requested, answered=ending.kind not in _WITHOUT_INTENT),
        outcome_category=outcome,
        effects=list(map(plain, done)),
        notices=list(map(plain, notices)),
        void_answer=ending.void_answer,
        failure=ending.cause,
        authors=name_authors(TextAuthor.CODE if turn.context.called else TextAuthor.USER, reply, done, notices),
    )
    return turn.to("decided", decision=decision, request=_whole_conversation(turn, decision.reply, runtime.snapshot.policy))


def _decide(turn: Turn, policy: CompiledPolicy) -> tuple[DecisionType, OutcomeCategory]:
    """Return the decision type and the outcome category for the ending of the turn."""
    ending = turn.ending
    assert ending is not None
    match ending.kind:
        case EndingKind.CONFIRMED:
            done = bool(turn.calls) and turn.calls[-1].result.success
            return DecisionType.EXECUTE_PENDING, (OutcomeCategory.TASK_COMPLETED if done else OutcomeCategory.TOOL_INVOCATION)
        case EndingKind.DECLINED:
            return DecisionType.CANCEL_PENDING, OutcomeCategory.RESPONSE_GIVEN
        case EndingKind.VOID_ANSWER:
            return DecisionType.RESPOND_ONLY, OutcomeCategory.USER_INPUT
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
        case EndingKind.ANSWER | EndingKind.CALLED:
            return _answered(turn, policy)


def _answered(turn: Turn, policy: CompiledPolicy) -> tuple[DecisionType, OutcomeCategory]:
    calls = turn.calls
    if not calls:
        after_question = _after_clarification(turn)
        return DecisionType.RESPOND_ONLY, (
            OutcomeCategory.CLARIFICATION_ANSWERED if after_question else OutcomeCategory.RESPONSE_GIVEN
        )
    denied = ToolErrorCode.ACCESS_DENIED
    if all(call.disposition is CallDisposition.REFUSED and call.result.error_code is denied for call in calls):
        return DecisionType.RESPOND_ONLY, OutcomeCategory.MISSING_PERMISSION
    changes = [call for call in calls if policy.is_write(call.call.name)]
    if turn.context.dry_run and changes:
        return DecisionType.INVOKE_TOOL, OutcomeCategory.RESPONSE_GIVEN
    succeeded = any(call.result.success for call in changes or calls)
    return DecisionType.INVOKE_TOOL, (OutcomeCategory.TASK_COMPLETED if succeeded else OutcomeCategory.TOOL_INVOCATION)


def _after_clarification(turn: Turn) -> bool:
    """Return True if the assistant's last message in this conversation was a question."""
    decided = [message.decision_type for message in turn.context.message_history if message.role == "assistant"]
    return bool(decided) and decided[-1] is DecisionType.ASK_CLARIFICATION


def _tool_call(call: TurnCall) -> ToolCall:
    return ToolCall(tool_name=call.call.name, parameters=call.arguments, sequence=call.sequence)


def _whole_conversation(turn: Turn, reply: str, policy: CompiledPolicy) -> LLMRequest | None:
    """Return the conversation with a response to every call and the reply at its end."""
    request = turn.request
    if request is None:
        return None
    if turn.response is None and turn.calls:
        # The model was not called, so the only call is the one that the user confirmed. It ran, or the user is asked again.
        request = with_confirmed_call(request, turn.calls[-1], policy)
    elif turn.ending is not None and turn.ending.kind is EndingKind.AWAITING and turn.response is not None:
        request = with_round(request, turn.response, this_round(turn), policy)
    return extended(request, LLMMessage(role="assistant", content=reply)) if reply else request

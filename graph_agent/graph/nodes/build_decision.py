"""BUILD_DECISION: the only terminal node. It composes the `AgentDecision` and responds to the calls that have no response."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.errors import ToolErrorCode
from graph_agent.graph.intent import read_intent
from graph_agent.graph.state import EndingKind, Turn, TurnRuntime
from graph_agent.graph.transcript import with_confirmed_calls, with_round
from graph_agent.models.authors import TextAuthor
from graph_agent.models.decision import AgentDecision, DecisionType, OutcomeCategory
from graph_agent.models.llm import LLMErrorCode
from graph_agent.models.prompt import Prompt, reply
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolCall
from graph_agent.policy.committed import is_committed
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.authored import Parts, by_code, joined, name_authors, plain
from graph_agent.reply.fixed import COULD_NOT_GO_ON, INTERRUPTED_UNKNOWN, as_notice, with_receipts
from graph_agent.words.call_reports import calls_said, notices_for_user, notices_of_undone
from graph_agent.words.refusals import refusal_notices

_IN_DECISION = frozenset({CallDisposition.EXECUTED, CallDisposition.REFUSED, CallDisposition.REPEATED})
"""The calls that the decision lists."""
_WITH_RECEIPTS = frozenset({EndingKind.FAILURE, EndingKind.CAP})
"""Endings whose fixed reply does not report the changes of the turn, so the receipts are added to it."""
_REPORTS_CONFIRMED = frozenset({EndingKind.CONFIRMED, EndingKind.FAILURE, EndingKind.CAP})
"""Endings whose reply reports the confirmed calls in the words of code."""
_WITHOUT_INTENT = frozenset({EndingKind.FAILURE, EndingKind.VOID_ANSWER})
"""Endings without an answer of the model or of the user that shows an intent."""


async def build_decision(turn: Turn, runtime: TurnRuntime) -> Turn:
    ending = turn.ending
    assert ending is not None
    decision_type, outcome = _decide(turn, runtime.snapshot.policy)
    done, uncertain = _receipts(turn.calls, runtime.snapshot.policy)
    shown = () if turn.confirmed is None else turn.confirmed.each
    reports = ending.kind in _REPORTS_CONFIRMED
    notices = [
        *map(by_code, turn.notices),
        *map(by_code, () if reports else notices_of_undone(turn.calls, shown)),
        *map(as_notice, uncertain),
        *notices_for_user(_not_quoted(turn, len(shown) if reports else 0), runtime.snapshot.policy),
        *map(by_code, refusal_notices(turn.calls, runtime.snapshot.policy, reported=len(shown) if reports else 0)),
    ]
    replied = _reply(turn, runtime.snapshot.policy)
    text = plain(replied)
    asks = decision_type is DecisionType.ASK_CLARIFICATION
    requested = [_tool_call(call) for call in turn.calls if call.disposition is not CallDisposition.SKIPPED]
    listed = [_tool_call(call) for call in turn.calls if call.disposition in _IN_DECISION]
    context = turn.context
    shows_intent = ending.kind not in _WITHOUT_INTENT and context.approval is None and context.proposed is None
    decision = AgentDecision(
        decision_type=decision_type,
        tool_calls=listed or None,
        response_text=None if asks else text,
        clarification_question=text if asks else None,
        pending_action=turn.pending if decision_type is DecisionType.REQUEST_CONFIRMATION else None,
        approval=turn.approval,
        decision_id=turn.decision_id,
        intent=read_intent(decision_type, requested, answered=bool(turn.report) or shows_intent),
        outcome_category=outcome,
        effects=list(map(plain, done)),
        notices=list(map(plain, notices)),
        calls_said=tuple(calls_said(turn.calls, runtime.snapshot.policy, confirmed=len(shown))),
        void_answer=ending.void_answer,
        confirmed=_confirmed_and_more(turn),
        failure=ending.cause,
        authors=name_authors(_message_author(turn), replied, done, notices),
    )
    return turn.to("decided", decision=decision, prompt=_whole_conversation(turn, decision.reply, runtime.snapshot))


def _not_quoted(turn: Turn, confirmed: int) -> Sequence[TurnCall]:
    """Return the calls whose results the reply does not quote: without a model it quotes all, else the `confirmed` ones."""
    return () if turn.ending is not None and turn.ending.kind is EndingKind.CALLED else turn.calls[confirmed:]


def _message_author(turn: Turn) -> TextAuthor:
    return TextAuthor.CODE if turn.context.is_without_model else TextAuthor.USER


def _receipts(calls: Sequence[TurnCall], policy: CompiledPolicy) -> tuple[list[Parts], list[Parts]]:
    """Return the receipts of what was done, and of what may have been done."""
    receipts = [(call.receipt, is_committed(policy.rules[call.call.name], call.result)) for call in calls if call.receipt]
    return [one for one, committed in receipts if committed], [one for one, committed in receipts if not committed]


def _reply(turn: Turn, policy: CompiledPolicy) -> Parts:
    """Return the text of the ending, with what code says about the changes of the turn."""
    ending = turn.ending
    assert ending is not None
    if turn.report and ending.kind in _WITH_RECEIPTS:
        # The confirmed calls are reported as if the model had not been asked to go on.
        end = by_code(COULD_NOT_GO_ON) if ending.kind is EndingKind.FAILURE else ending.authored
        return with_receipts(turn.report + by_code("\n\n") + end, *_receipts(turn.calls[len(turn.confirmed_calls) :], policy))
    if ending.kind in _WITH_RECEIPTS:
        done, unknown = _receipts(turn.calls, policy)
        # A failure that invites to try again would invite to do a change twice.
        failed = unknown and ending.kind is EndingKind.FAILURE and not turn.repeating
        return with_receipts(by_code(INTERRUPTED_UNKNOWN) if failed else ending.authored, done, unknown)
    done, _ = _receipts(turn.confirmed_calls, policy)
    if not done or ending.kind is EndingKind.CONFIRMED:
        return ending.authored
    # What was confirmed and done is said by code first, whatever the model then says.
    return joined("\n", [by_code("Done: ") + one + by_code(".") for one in done]) + by_code("\n\n") + ending.authored


def _confirmed_and_more(turn: Turn) -> str:
    """Return the id of the action that this turn ran; empty if it ended with that, which the type of the decision says."""
    ran = bool(turn.report) or any(call.disposition is CallDisposition.EXECUTED for call in turn.confirmed_calls)
    ends_with_it = turn.ending is not None and turn.ending.kind is EndingKind.CONFIRMED
    return turn.confirmed.id if turn.confirmed is not None and ran and not ends_with_it else ""


def _decide(turn: Turn, policy: CompiledPolicy) -> tuple[DecisionType, OutcomeCategory]:
    """Return the decision type and the outcome category for the ending of the turn."""
    ending = turn.ending
    assert ending is not None
    match ending.kind:
        case EndingKind.CONFIRMED:
            return DecisionType.EXECUTE_PENDING, _outcome(turn, policy)
        case EndingKind.DECLINED:
            return DecisionType.CANCEL_PENDING, OutcomeCategory.RESPONSE_GIVEN
        case EndingKind.VOID_ANSWER:
            return DecisionType.RESPOND_ONLY, OutcomeCategory.USER_INPUT
        case EndingKind.AWAITING:
            return DecisionType.REQUEST_CONFIRMATION, OutcomeCategory.RESPONSE_GIVEN
        case EndingKind.QUESTION:
            return DecisionType.ASK_CLARIFICATION, ending.reason or OutcomeCategory.UNCLEAR_INTENT
        case EndingKind.ANSWER | EndingKind.REFUSAL | EndingKind.FAILURE | EndingKind.CAP if turn.report:
            return DecisionType.EXECUTE_PENDING, _outcome(turn, policy)
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
    if turn.context.dry_run and any(policy.is_write(call.call.name) for call in calls):
        return DecisionType.INVOKE_TOOL, OutcomeCategory.RESPONSE_GIVEN
    return DecisionType.INVOKE_TOOL, _outcome(turn, policy)


def _outcome(turn: Turn, policy: CompiledPolicy) -> OutcomeCategory:
    """Return the outcome of a turn with calls: completed if a change succeeded, or any call of a turn without changes."""
    changes = [call for call in turn.calls if policy.is_write(call.call.name)]
    succeeded = any(call.result.success for call in changes or turn.calls)
    return OutcomeCategory.TASK_COMPLETED if succeeded else OutcomeCategory.TOOL_INVOCATION


def _after_clarification(turn: Turn) -> bool:
    """Return True if the assistant's last message in this conversation was a question."""
    decided = [message.decision_type for message in turn.context.message_history if message.role == "assistant"]
    return bool(decided) and decided[-1] is DecisionType.ASK_CLARIFICATION


def _tool_call(call: TurnCall) -> ToolCall:
    return ToolCall(tool_name=call.call.name, parameters=call.arguments, sequence=call.sequence)


def _whole_conversation(turn: Turn, text: str, snapshot: PolicySnapshot) -> Prompt | None:
    """Return the conversation with a response to every call and the reply at its end."""
    prompt = turn.prompt
    if prompt is None:
        return None
    if (confirmed := turn.unused_yes) is not None and turn.calls:
        # The model was not called: what the user confirmed ran, or the user is asked again.
        prompt = with_confirmed_calls(prompt, confirmed, turn.calls, snapshot.policy)
    elif turn.ending is not None and turn.ending.kind is EndingKind.AWAITING and turn.response is not None:
        prompt = with_round(prompt, turn.response, turn, snapshot)
    return prompt.extended(reply(text)) if text else prompt

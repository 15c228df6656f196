"""EXECUTE_TOOLS: lets the guard judge the whole batch, then runs the permitted calls in order.

A call that depends on the calls before it is judged again, with the rest of the batch, after they have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.graph.authorized import run_authorized
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnCall, TurnRuntime
from graph_agent.models.decision import CONFIRMATION_LIFETIME, PendingAction
from graph_agent.models.facts import Facts
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult
from graph_agent.policy import confirmation
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsDecision, Situation
from graph_agent.policy.compiled import CompiledPolicy, ToolRule
from graph_agent.policy.guard import AWAITING, SKIPPED, AuthorizedCall, CallDecision, JudgedCall, judge_batch
from graph_agent.policy.objects import NamedObjects, named_objects
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.receipts import confirmed_reply, is_committed, quoted_result, receipt
from graph_agent.reply import fixed
from graph_agent.reply.authored import Parts, by_code, joined, plain
from graph_agent.reply.forms import REPLY_FORMS

_MADE = frozenset({CallDisposition.EXECUTED, CallDisposition.REPEATED})
_WOULD_BE_DONE = "this is a dry run: it would be done"
_MAX_CHANGED_BEFORE = 4_000
"""The longest text that a question shows before its action, in characters."""
# For the model and, as a clause, for the user.
_TOO_MUCH_CHANGED = "what this message has changed is too long to be shown before a question: finish without this call"
_TOO_MUCH_TO_SHOW = "what this message has changed is too long to be shown before a question: ask for it in a new message"


@dataclass(frozen=True, slots=True)
class _Processed:
    """The fate of one call of the batch, and the question to the user if the call waits for an answer."""

    disposition: CallDisposition
    result: ToolResult
    description: str = ""
    """For a call that waits: the action, as the user reads it."""
    whole_digest: str = ""
    """The digest of what is described, if the description does not show all of it."""
    object_text: str = ""
    """The whole text of the object of such a call, if the description shows only a part of it."""
    before_question: str = ""
    changed_before: str = ""
    """The sentences about what this message has changed before."""
    rule: str = ""
    """For a refused call: the rule that refused it, as a clause for the user."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """The calls that are judged together, and the facts that conditions read."""

    calls: Sequence[FunctionCall]
    facts: Facts | None

    def judge(
        self, turn: Turn, runtime: TurnRuntime, position: int, reserved: ConditionsDecision | None = None
    ) -> list[JudgedCall]:
        """Judge the calls from `position` on, after the others have ended."""
        judged_calls = judge_batch(
            self.calls[position:],
            policy=runtime.snapshot.policy,
            user_id=turn.context.user_id,
            decision_id=turn.decision_id,
            past=_past(turn),
            max_calls_per_turn=runtime.snapshot.config.max_calls_per_turn,
            confirmed=turn.confirmed,
            roles=turn.context.roles,
            facts=self.facts,
            of_message=turn.context.is_of_message,
            position=position,
            reserved=reserved,
        )
        runtime.ports.intend(list(_certain(judged_calls, runtime.snapshot.policy.conditions)))
        return list(judged_calls)


def _certain(judged_calls: Sequence[JudgedCall], conditions: Conditions | None) -> Iterator[AuthorizedCall]:
    """Yield the permitted calls up to the first one that may still be refused: the commit of a call announces the next one."""
    for judged in judged_calls:
        call = judged.authorized
        if judged.decision is CallDecision.DEFERRED or (call is not None and _is_counted(conditions, call.tool_name)):
            return
        if call is not None:
            yield call


async def execute_tools(turn: Turn, runtime: TurnRuntime) -> Turn:
    conditions = runtime.snapshot.policy.conditions
    facts = await runtime.ports.facts(conditions) if conditions is not None and conditions.reads_facts else None
    batch = _Batch(_batch(turn), facts)
    judged_calls = batch.judge(turn, runtime, 0)
    waits = False
    for position, call in enumerate(batch.calls):
        if not waits and not runtime.ports.interrupted and _is_open(turn, judged_calls[position]):
            judged_calls[position:] = batch.judge(turn, runtime, position)
        judged = judged_calls[position]
        processed = _skipped() if waits else await _process_call(turn, runtime, judged, batch, position)
        if processed.disposition is CallDisposition.AWAITING:
            waits = True
            turn = _await_confirmation(turn, runtime, judged, processed)
        turn = _with_call(turn, runtime, call, judged, processed)
    if waits:
        # A change behind the question was not made.
        processed_calls = turn.calls[-len(batch.calls) :]
        left_out = any(
            one.disposition is CallDisposition.SKIPPED and runtime.snapshot.policy.is_write(one.call.name)
            for one in processed_calls
        )
        return turn.to("awaiting", notices=(*turn.notices, fixed.ONE_AT_A_TIME) if left_out else turn.notices)
    if turn.confirmed is not None:
        return turn.to("confirmed_done", ending=Ending.of(EndingKind.CONFIRMED, _report(turn, turn.calls[-1], runtime)))
    if turn.context.called:
        made = [_report(turn, call, runtime) for call in turn.calls if call.disposition in _MADE]
        # Why a call was refused is said by a notice.
        text = joined("\n\n", dict.fromkeys(made)) or by_code(fixed.NOTHING_CHANGED)
        return turn.to("called_done", ending=Ending.of(EndingKind.CALLED, text))
    return turn.to("executed")


def _is_open(turn: Turn, judged: JudgedCall) -> bool:
    """True if the decision is still to be made: the calls before this one have ended, and none of them waits for the user."""
    # A dry run leaves out what the question would leave out.
    not_asked = judged.decision is CallDecision.SKIPPED and not turn.context.dry_run
    return judged.decision is CallDecision.DEFERRED or not_asked


def _past(turn: Turn) -> list[PastCall]:
    return [_past_call(call, dry_run=turn.context.dry_run) for call in turn.calls]


def _past_call(call: TurnCall, *, dry_run: bool) -> PastCall:
    # A dry run judges each call as if those before it had been made, and had succeeded.
    supposed = dry_run and call.rule == _WOULD_BE_DONE
    sent = supposed or call.disposition is CallDisposition.EXECUTED
    return PastCall(
        call.sequence,
        call.call.name,
        call.arguments,
        may_have_run=sent and (supposed or call.result.may_be_done),
        attempted=sent,
        succeeded=sent and (supposed or call.result.success),
    )


def _batch(turn: Turn) -> list[FunctionCall]:
    """Return the calls to judge: exactly the confirmed one, those of a decision without a model, or the model's tool calls."""
    if turn.confirmed is not None:
        return [FunctionCall(name=turn.confirmed.tool_name, arguments=turn.confirmed.arguments)]
    if turn.context.called:
        return list(turn.context.called)
    assert turn.response is not None
    return [call for call in turn.response.function_calls or [] if call.name not in REPLY_FORMS]


async def _process_call(turn: Turn, runtime: TurnRuntime, judged: JudgedCall, batch: _Batch, position: int) -> _Processed:
    if turn.context.dry_run and (rule := _dry_run_rule(judged)):
        return _refused(f"{rule}; nothing was sent", None, rule)
    if judged.decision is CallDecision.AWAITING and not runtime.ports.interrupted:
        return await _ask_user(turn, runtime, judged)
    if judged.decision in (CallDecision.PERMITTED, CallDecision.REPEATED) and not runtime.ports.interrupted:
        if turn.confirmed is not None and (stopped := await _check_preview(runtime, judged, turn.confirmed)) is not None:
            return stopped
        for sequence in judged.repeats:
            earlier = turn.calls[sequence - 1].result
            if earlier.may_be_done:
                return _Processed(CallDisposition.REPEATED, earlier)
        judged = await _reserve(turn, runtime, judged, batch, position)
        if judged.decision is CallDecision.AWAITING:
            return await _ask_user(turn, runtime, judged)
        if judged.authorized is not None:
            # A counted read that is repeated would be counted once.
            counted = _is_counted(runtime.snapshot.policy.conditions, judged.tool_name)
            retries = 0 if counted else runtime.snapshot.config.read_retries
            result = await run_authorized(judged.authorized, runtime.ports, read_retries=retries)
            return _Processed(CallDisposition.EXECUTED, result)
    if judged.error_code is not None:
        return _refused(judged.error, judged.error_code, judged.rule)
    return _skipped()


async def _reserve(turn: Turn, runtime: TurnRuntime, judged: JudgedCall, batch: _Batch, position: int) -> JudgedCall:
    """Return the decision on a permitted call after its use was counted, if a condition counts it: the reservation wins."""
    policy, call = runtime.snapshot.policy, judged.authorized
    if call is None or policy.conditions is None or not _is_counted(policy.conditions, call.tool_name):
        return judged
    situation = Situation(call.user_id, turn.context.roles, batch.facts, _past(turn), turn.context.is_of_message)
    decided = await runtime.ports.reserve(call, policy.conditions, situation, confirmed=turn.confirmed is not None)
    if decided is None:
        return replace(judged, decision=CallDecision.SKIPPED, authorized=None)
    return batch.judge(turn, runtime, position, decided)[0]


def _is_counted(conditions: Conditions | None, tool_name: str) -> bool:
    return conditions is not None and conditions.counts(tool_name)


def _dry_run_rule(judged: JudgedCall) -> str:
    """Return what a dry run does not do, as a clause for the user; empty for a read that runs, and for a refused call."""
    if judged.decision is CallDecision.AWAITING:
        return f"this is a dry run: you would be asked first{judged.rule and f' ({judged.rule})'}"
    return _WOULD_BE_DONE if judged.authorized is not None and judged.authorized.mutating else ""


async def _ask_user(turn: Turn, runtime: TurnRuntime, judged: JudgedCall) -> _Processed:
    """Ask for confirmation. If the question cannot show what it is about, refuse the call instead, with a reason for the model.

    The user is never asked about a bare id where a preview is offered, because a user cannot know what it refers to. The
    preview is taken now, after the calls before this one, and the question says what they have changed.
    """
    rule = runtime.snapshot.policy.rules[judged.tool_name]
    changed_before = plain(_changed_before(turn, runtime.snapshot.policy, judged))
    if len(changed_before) > _MAX_CHANGED_BEFORE:
        return _refused(_TOO_MUCH_CHANGED, ToolErrorCode.VALIDATION_ERROR, _TOO_MUCH_TO_SHOW)
    preview = None
    if rule.traits.preview:
        preview = await runtime.ports.preview(judged.tool_name, judged.arguments)
        if runtime.ports.interrupted:
            return _skipped()
        if not preview.success:
            return _without_preview(preview)
    because = f"{fixed.by_rule(judged.rule)} " if judged.rule else ""
    return _awaiting(rule, judged, preview, because, changed_before)


def _changed_before(turn: Turn, policy: CompiledPolicy, judged: JudgedCall) -> Parts:
    """Return what this message has changed, or may have, but for what was certainly another object than that of the call."""
    asked = _objects(policy, judged.tool_name, judged.arguments)
    related = [
        call
        for call in turn.calls
        if call.receipt and not _objects(policy, call.call.name, call.arguments, call.result.data).are_others_than(asked)
    ]
    committed = {call.sequence for call in related if is_committed(policy.rules[call.call.name], call.result)}
    done = [call.receipt for call in related if call.sequence in committed]
    return fixed.with_receipts((), done, [call.receipt for call in related if call.sequence not in committed])


def _objects(policy: CompiledPolicy, tool_name: str, arguments: dict[str, Any], result: Any = None) -> NamedObjects:
    rule = policy.rules[tool_name]
    return named_objects(rule.declaration.parameters, arguments, result, without={rule.grant.bound_argument or ""})


async def _check_preview(runtime: TurnRuntime, judged: JudgedCall, confirmed: PendingAction) -> _Processed | None:
    """Return None if the object of a confirmed call is still as it was shown to the user.

    If the object has changed, the user is asked again. If there is no preview of it, the call is refused.
    """
    rule = runtime.snapshot.policy.rules[judged.tool_name]
    if not rule.traits.preview:
        return None
    preview = await runtime.ports.preview(judged.tool_name, judged.arguments)
    if not preview.success:
        return _without_preview(preview)
    if confirmation.is_unchanged(rule, confirmed, preview):
        return None
    return _awaiting(rule, judged, preview, f"{fixed.CHANGED_SINCE_ASKED} ", confirmed.changed_before)


def _without_preview(preview: ToolResult) -> _Processed:
    # Only the preview has an unknown outcome: the call itself was not sent. The text is ours, so that by a call that counts as
    # refused the model has read nothing of the server.
    is_missing = preview.error_code is ToolErrorCode.NOT_FOUND
    code = preview.error_code if preview.error_code and not preview.unknown else ToolErrorCode.TOOL_EXECUTION_ERROR
    rule = "it was not found" if is_missing else "it could not be looked up"
    return _refused(f"what the call would act on {'does not exist' if is_missing else 'cannot be shown'}", code, rule)


def _refused(error: str | None, code: ToolErrorCode | None, rule: str) -> _Processed:
    return _Processed(CallDisposition.REFUSED, ToolResult(success=False, error=error, error_code=code), rule=rule)


def _skipped() -> _Processed:
    return _Processed(CallDisposition.SKIPPED, ToolResult(success=False, error=SKIPPED))


def _awaiting(
    rule: ToolRule, judged: JudgedCall, preview: ToolResult | None, before_question: str, changed_before: str
) -> _Processed:
    shown = confirmation.is_shown_in_full(judged.arguments, preview)
    return _Processed(
        CallDisposition.AWAITING,
        ToolResult(success=False, error=judged.error or AWAITING),
        confirmation.describe_in_full(rule, judged.arguments, preview),
        "" if shown else confirmation.digest_of_action(rule, judged.arguments, preview),
        confirmation.unshown_text(preview),
        before_question,
        changed_before,
    )


def _await_confirmation(turn: Turn, runtime: TurnRuntime, judged: JudgedCall, processed: _Processed) -> Turn:
    """Return the turn with the signed action that waits for the user, and the question about it as its end."""
    created_at = runtime.ports.now()
    pending = PendingAction(
        id=runtime.ports.new_id(),
        tool_name=judged.tool_name,
        arguments=judged.arguments,
        description=processed.description,
        whole_digest=processed.whole_digest,
        by_id_only=bool(processed.whole_digest),
        object_text=processed.object_text,
        changed_before=processed.changed_before,
        asked_under=runtime.snapshot.policy.digests([judged.tool_name]),
        created_at=created_at,
        expires_at=created_at + CONFIRMATION_LIFETIME,
    )
    pending = pending.replace(signature=runtime.ports.sign(pending))
    text = processed.before_question + fixed.pending_question(pending)
    return turn.to(turn.outcome, pending=pending, ending=Ending.of(EndingKind.AWAITING, by_code(text)))


def _with_call(turn: Turn, runtime: TurnRuntime, call: FunctionCall, judged: JudgedCall, processed: _Processed) -> Turn:
    # Without its duration, so that the state of the turn is the same in a replay.
    result = processed.result.model_copy(update={"duration_ms": 0})
    executed = processed.disposition is CallDisposition.EXECUTED
    rule = runtime.snapshot.policy.rules[judged.tool_name] if executed else None
    line = receipt(rule, judged.arguments, result, confirmed=turn.confirmed is not None) if rule is not None else ()
    turn_call = TurnCall(
        judged.sequence, turn.iterations + 1, call, judged.arguments, processed.disposition, result, line, processed.rule
    )
    return turn.to(turn.outcome, calls=(*turn.calls, turn_call))


def _report(turn: Turn, call: TurnCall, runtime: TurnRuntime) -> Parts:
    """Return the reply about a call that no model reports. Why it failed is quoted from its server."""
    if turn.confirmed is not None and runtime.ports.interrupted and not call.result.may_be_done:
        return by_code(fixed.CONFIRMED_NOT_DONE)
    rule = runtime.snapshot.policy.rules.get(call.call.name)
    failed = by_code(fixed.failed_call_reply(call.result.error_code, unknown=call.result.unknown))
    if rule is None:
        return failed
    if call.disposition is CallDisposition.REFUSED and call.result.error_code is ToolErrorCode.ACCESS_DENIED:
        # The conditions were asked again after the yes.
        return by_code(fixed.refused([confirmation.describe_action(rule, call.arguments, None)], call.rule))
    return (
        confirmed_reply(rule, call.arguments, call.result) if call.result.success else failed + quoted_result(rule, call.result)
    )

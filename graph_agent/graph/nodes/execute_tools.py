"""EXECUTE_TOOLS: lets the guard judge the whole batch, then runs the permitted calls in order.

A call that depends on the calls before it is judged again, with the rest of the batch, after they have ended. Calls that wait
for the user are put on one card. The calls of a card that the user has confirmed run in order, up to the first one that is not
certainly done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.graph.approval import RequestRefused, open_request, opened_reply, with_approvers
from graph_agent.graph.authorized import run_authorized
from graph_agent.graph.batch import WOULD_BE_ASKED, WOULD_BE_DONE, WOULD_WAIT, Batch
from graph_agent.graph.call_reports import MADE, is_done, report_call, report_confirmed
from graph_agent.graph.card import AskedCall, ask_about, is_too_long_together
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnCall, TurnRuntime
from graph_agent.graph.undo import changed_since, read_around
from graph_agent.models.decision import AfterYes, ApprovalRequest, PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition, ShadowVerdict
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import UndoneCall
from graph_agent.policy import confirmation
from graph_agent.policy.cedar.conditions import NeededApproval
from graph_agent.policy.guard import (
    AWAITING,
    LEFT_OUT,
    SAME_CALL,
    SKIPPED,
    STOPPED,
    CallDecision,
    JudgedCall,
)
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.receipts import receipt
from graph_agent.policy.shadow import has_shadow_rules, shadow_verdicts
from graph_agent.reply import fixed
from graph_agent.reply.authored import by_code, joined

# For the model and, as a clause, for the user.
_TOO_MUCH_CHANGED = "what this message has changed is too long to be shown before a question: finish without this call"
_TOO_MUCH_TO_SHOW = "what this message has changed is too long to be shown before a question: ask for it in a new message"


@dataclass(frozen=True, slots=True)
class _Processed:
    """The fate of one call of the batch."""

    disposition: CallDisposition
    result: ToolResult
    asked: AskedCall | None = None
    """The call as the user reads it, if it waits for an answer."""
    rule: str = ""
    """For a refused call: the rule that refused it, as a clause for the user."""
    request: ApprovalRequest | None = None
    """For a call that waits for the approval of other people."""


async def execute_tools(turn: Turn, runtime: TurnRuntime) -> Turn:
    batch, policy = await Batch.of(turn, runtime), runtime.snapshot.policy
    judged_calls = await batch.judge(turn, runtime, 0)
    confirmed, first = turn.unused_yes, len(turn.calls)
    # None of several runs if one of them is not as it was shown.
    anew = confirmed is not None and len(batch.calls) > 1 and await _has_changed(turn, runtime, confirmed, batch)
    asked: list[AskedCall] = []
    request: ApprovalRequest | None = None
    stopped = full = False
    for position, call in enumerate(batch.calls):
        if not (runtime.ports.interrupted or stopped or full) and _is_open(turn, judged_calls, position):
            judged_calls[position:] = await batch.judge(turn, runtime, position)
        judged = _awaiting_anew(judged_calls[position]) if anew else judged_calls[position]
        shadow = () if stopped or full else _shadow(turn, runtime, judged, batch, position)
        if stopped:
            processed = _skipped(STOPPED)
        elif full:
            processed = _skipped(LEFT_OUT)
        else:
            processed = await _process_call(turn, runtime, judged, batch, position)
        if processed.asked is not None and asked and is_too_long_together(turn, policy, [*asked, processed.asked]):
            # Nothing overtakes a call that is too long to be shown with others.
            processed, full = _skipped(LEFT_OUT), True
        # A call that needs an approval waits alone, unless it was refused.
        full = full or (judged.needs is not None and processed.disposition is not CallDisposition.REFUSED)
        if processed.asked is not None:
            asked.append(replace(processed.asked, origins=batch.warnings(policy, judged, position)))
        request = request or processed.request
        turn = _with_call(turn, runtime, call, judged, processed, shadow=shadow, fact_reads=batch.reader.made)
        if processed.disposition is CallDisposition.EXECUTED and policy.is_write(call.name):
            batch.reader.forget()
        if confirmed is not None:
            anew = anew or bool(asked)
            stopped = stopped or not (anew or is_done(turn.calls[-1], policy))
    if request is not None:
        ending = Ending.of(EndingKind.AWAITING, by_code(opened_reply(request)))
        return turn.to("awaiting", approval=request, ending=ending)
    if asked:
        return _awaiting(turn, runtime, asked, turn.calls[first:])
    if confirmed is not None:
        return _after_yes(turn, runtime, confirmed)
    if turn.context.called:
        interrupted = runtime.ports.interrupted
        made = [report_call(turn, call, policy, interrupted=interrupted) for call in turn.calls if call.disposition in MADE]
        # Why a call was refused is said by a notice.
        text = joined("\n\n", dict.fromkeys(made)) or by_code(fixed.NOTHING_CHANGED)
        return turn.to("called_done", ending=Ending.of(EndingKind.CALLED, text))
    return turn.to("executed")


def _is_open(turn: Turn, judged_calls: Sequence[JudgedCall], position: int) -> bool:
    """True if a decision is to be made now: it depends on the calls before this one, and these have ended."""
    if judged_calls[position].decision is CallDecision.DEFERRED:
        return True
    # Whether an earlier call waits for the user may have come out otherwise than it was supposed.
    return position > 0 and (
        turn.unused_yes is not None
        or any(judged.decision in (CallDecision.AWAITING, CallDecision.WAITS) for judged in judged_calls[:position])
        or any(call.disposition is CallDisposition.AWAITING for call in turn.calls)
    )


def _awaiting_anew(judged: JudgedCall) -> JudgedCall:
    """Return the decision on a confirmed call that the user is asked about again."""
    if judged.authorized is None:
        return judged
    return replace(judged, decision=CallDecision.AWAITING, authorized=None, error=AWAITING, rule="")


def _awaiting(turn: Turn, runtime: TurnRuntime, asked: Sequence[AskedCall], made: Sequence[TurnCall]) -> Turn:
    """Return the turn that ends with the question about the calls that wait."""
    left_out = [call for call in made if call.disposition is CallDisposition.SKIPPED and call.result.error != SAME_CALL]
    turn = ask_about(turn, runtime, asked, left_out=bool(left_out))
    assert turn.pending is not None
    lost = turn.pending.then is AfterYes.END and any(runtime.snapshot.policy.is_write(call.call.name) for call in left_out)
    return turn.to("awaiting", notices=(*turn.notices, fixed.ONE_AT_A_TIME) if lost else turn.notices)


def _after_yes(turn: Turn, runtime: TurnRuntime, confirmed: PendingAction) -> Turn:
    """Return the turn after the calls that the user has confirmed: it ends with the report, or the model goes on."""
    policy, interrupted = runtime.snapshot.policy, runtime.ports.interrupted
    report = with_approvers(turn, report_confirmed(turn, policy, interrupted=interrupted))
    all_done = all(is_done(call, policy) for call in turn.calls)
    goes_on = confirmed.then is AfterYes.GO_ON or (confirmed.then is AfterYes.EXPLAIN and not all_done)
    # After an unknown outcome code has the last word: a model might do the same again in other words.
    unknown = any(call.result.unknown for call in turn.calls)
    # These calls are the first round.
    has_round_left = runtime.snapshot.config.max_iterations > 1
    if not goes_on or interrupted or unknown or not has_round_left:
        return turn.to("confirmed_done", ending=Ending.of(EndingKind.CONFIRMED, report))
    return turn.to("executed", report=report)


async def _has_changed(turn: Turn, runtime: TurnRuntime, confirmed: PendingAction, batch: Batch) -> bool:
    """True if the object of one of the confirmed calls is not as it was shown, or is gone."""
    for position, one in enumerate(confirmed.each):
        rule = runtime.snapshot.policy.rules.get(one.tool_name)
        if rule is None or runtime.ports.interrupted:
            continue
        if not rule.traits.preview:
            await batch.read(turn, runtime, position)
            if (shown := batch.shown(position)) and not confirmation.is_unchanged(rule, one, None, shown):
                return True
            continue
        preview = await runtime.ports.preview(one.tool_name, one.arguments)
        is_gone = preview.error_code is ToolErrorCode.NOT_FOUND
        if is_gone or (preview.success and not confirmation.is_unchanged(rule, one, preview)):
            return True
    return False


async def _process_call(turn: Turn, runtime: TurnRuntime, judged: JudgedCall, batch: Batch, position: int) -> _Processed:
    if turn.context.dry_run and (rule := _dry_run_rule(judged)):
        return _refused(f"{rule}; nothing was sent", None, rule)
    if runtime.ports.interrupted and batch.reader.needs(judged.tool_name):
        # What could not be read any more is no reason to refuse it.
        return _skipped()
    if judged.decision in (CallDecision.AWAITING, CallDecision.WAITS) and not runtime.ports.interrupted:
        return await _ask_people(turn, runtime, judged, batch, position)
    if judged.decision in (CallDecision.PERMITTED, CallDecision.REPEATED) and not runtime.ports.interrupted:
        if (changed := await _check_shown(turn, runtime, judged, batch, position)) is not None:
            return changed
        for sequence in judged.repeats:
            earlier = turn.calls[sequence - 1].result
            if earlier.may_be_done:
                return _Processed(CallDisposition.REPEATED, earlier)
        if (why := await changed_since(turn, runtime, batch, judged, position)) is not None:
            return _not_undone(why)
        judged = await _reserve(turn, runtime, judged, batch, position)
        if judged.decision in (CallDecision.AWAITING, CallDecision.WAITS):
            return await _ask_people(turn, runtime, judged, batch, position)
        if judged.authorized is not None and (prevented := await _claim_undo(turn, runtime, judged, position)) is not None:
            return prevented
        if judged.authorized is not None:
            # A counted read that is repeated would be counted once.
            conditions = runtime.snapshot.policy.conditions
            counted = conditions is not None and conditions.counts(judged.tool_name)
            retries = 0 if counted else runtime.snapshot.config.read_retries
            await read_around(turn, runtime, batch, judged, position, after=False)
            result = await run_authorized(judged.authorized, runtime.ports, read_retries=retries)
            if result.success:
                await read_around(turn, runtime, batch, judged, position, after=True)
            return _Processed(CallDisposition.EXECUTED, result)
    if judged.error_code is not None:
        return _refused(judged.error, judged.error_code, judged.rule)
    return _skipped(judged.error if judged.decision is CallDecision.SKIPPED else SKIPPED)


async def _claim_undo(turn: Turn, runtime: TurnRuntime, judged: JudgedCall, position: int) -> _Processed | None:
    """Return None if a call may undo what it is to undo, or if it undoes nothing."""
    undone = turn.undone_by_call(position)
    if undone is None or judged.authorized is None:
        return None
    by = await runtime.ports.claim_undo(judged.authorized, undone)
    return _skipped() if by is None else _not_undone(fixed.undone_already(by)) if by else None


def _not_undone(why: str) -> _Processed:
    return _refused(f"not undone: {why}", ToolErrorCode.ACCESS_DENIED, why)


def _shadow(turn: Turn, runtime: TurnRuntime, judged: JudgedCall, batch: Batch, position: int) -> tuple[ShadowVerdict, ...]:
    """Return the rules in the shadow that would have changed the decision on a call that runs, or waits for people."""
    policy = runtime.snapshot.policy
    if not has_shadow_rules(policy):
        return ()
    if judged.authorized is None and judged.decision not in (CallDecision.AWAITING, CallDecision.WAITS):
        return ()
    return shadow_verdicts(policy, judged.tool_name, judged.arguments, batch.situation(turn, position))


async def _reserve(turn: Turn, runtime: TurnRuntime, judged: JudgedCall, batch: Batch, position: int) -> JudgedCall:
    """Return the decision on a permitted call after its use was counted, if a condition counts it: the reservation wins."""
    policy, call = runtime.snapshot.policy, judged.authorized
    if call is None or policy.conditions is None or not policy.counts(call.tool_name):
        return judged
    situation = batch.situation(turn, position)
    confirmed = turn.unused_yes is not None and turn.has_yes
    decided = await runtime.ports.reserve(call, policy.conditions, situation, confirmed=confirmed)
    if decided is None:
        return replace(judged, decision=CallDecision.SKIPPED, authorized=None)
    return (await batch.judge(turn, runtime, position, decided))[0]


def _dry_run_rule(judged: JudgedCall) -> str:
    """Return what a dry run does not do, as a clause for the user; empty for a read that runs, and for a refused call."""
    if judged.decision in (CallDecision.AWAITING, CallDecision.WAITS):
        what = WOULD_BE_ASKED if judged.decision is CallDecision.AWAITING else WOULD_WAIT
        return f"{what}{judged.rule and f' ({judged.rule})'}"
    return WOULD_BE_DONE if judged.authorized is not None and judged.authorized.mutating else ""


async def _ask_people(turn: Turn, runtime: TurnRuntime, judged: JudgedCall, batch: Batch, position: int) -> _Processed:
    """Ask the user about a call, or other people. A closing decision asks nobody: the call is refused."""
    if turn.context.approval is not None:
        return _refused(judged.error, ToolErrorCode.ACCESS_DENIED, judged.rule or AWAITING)
    waits = judged.decision is CallDecision.WAITS
    if waits and (changed := await _check_shown(turn, runtime, judged, batch, position)) is not None:
        return changed
    if (why := await changed_since(turn, runtime, batch, judged, position)) is not None:
        return _not_undone(why)
    processed = await _ask_user(turn, runtime, judged, batch.shown(position), turn.undone_by_call(position))
    if not waits or processed.asked is None:
        return processed
    return await _wait_for_approval(turn, runtime, judged, processed.asked, batch, position)


async def _wait_for_approval(
    turn: Turn, runtime: TurnRuntime, judged: JudgedCall, asked: AskedCall, batch: Batch, position: int
) -> _Processed:
    needs, read = judged.needs or NeededApproval((), ()), (batch.sources_of(position), batch.facts_of(position))
    try:
        request = await open_request(turn, runtime, asked, needs, *read)
    except RequestRefused as refused:
        return _refused(f"not done: {refused}", ToolErrorCode.ACCESS_DENIED, refused.rule)
    if request is None:
        return _skipped()
    why = f"waits for the approval of another person with the role {fixed.in_roles(request.roles)} (request {request.id})"
    return _Processed(CallDisposition.WAITS, ToolResult(success=False, error=why), request=request)


async def _ask_user(
    turn: Turn, runtime: TurnRuntime, judged: JudgedCall, shown: dict[str, Any], undoes: UndoneCall | None
) -> _Processed:
    """Ask for confirmation. If the question cannot show what it is about, refuse the call instead, with a reason for the model.

    The user is never asked about a bare id where a preview is offered, because a user cannot know what it refers to. The
    preview is taken now, after the calls before this one, and the question says what they have changed. Without a preview the
    question has what is `shown` of the facts that the conditions read.
    """
    rule = runtime.snapshot.policy.rules[judged.tool_name]
    if is_too_long_together(turn, runtime.snapshot.policy, [AskedCall.of(rule, judged.arguments, None)]):
        return _refused(_TOO_MUCH_CHANGED, ToolErrorCode.VALIDATION_ERROR, _TOO_MUCH_TO_SHOW)
    preview = None
    if rule.traits.preview:
        preview = await runtime.ports.preview(judged.tool_name, judged.arguments)
        if runtime.ports.interrupted:
            return _skipped()
        if not preview.success:
            return _without_preview(preview)
    return _asked(AskedCall.of(rule, judged.arguments, preview, judged.rule, shown, undoes), judged.error)


async def _check_shown(turn: Turn, runtime: TurnRuntime, judged: JudgedCall, batch: Batch, position: int) -> _Processed | None:
    """Return None if the object of a confirmed call is still as it was shown, or if the user has confirmed no call.

    If the object has changed, the user is asked again, or the people who approved the call. If there is no preview of it, the
    call is refused.
    """
    if turn.unused_yes is None:
        return None
    confirmed, shown = turn.unused_yes.each[position], batch.shown(position)
    rule, preview = runtime.snapshot.policy.rules[judged.tool_name], None
    if rule.traits.preview:
        preview = await runtime.ports.preview(judged.tool_name, judged.arguments)
        if not preview.success:
            return _without_preview(preview)
    elif not shown:
        return None
    if confirmation.is_unchanged(rule, confirmed, preview, shown):
        return None
    asked = AskedCall.of(rule, judged.arguments, preview, facts=shown, undoes=confirmed.undoes)
    return (
        _asked(asked)
        if turn.context.approval is None
        else await _wait_for_approval(turn, runtime, judged, asked, batch, position)
    )


def _without_preview(preview: ToolResult) -> _Processed:
    # Only the preview has an unknown outcome: the call itself was not sent. The text is ours, so that by a call that counts as
    # refused the model has read nothing of the server.
    is_missing = preview.error_code is ToolErrorCode.NOT_FOUND
    code = preview.error_code if preview.error_code and not preview.unknown else ToolErrorCode.TOOL_EXECUTION_ERROR
    rule = "it was not found" if is_missing else "it could not be looked up"
    return _refused(f"what the call would act on {'does not exist' if is_missing else 'cannot be shown'}", code, rule)


def _refused(error: str | None, code: ToolErrorCode | None, rule: str) -> _Processed:
    return _Processed(CallDisposition.REFUSED, ToolResult(success=False, error=error, error_code=code), rule=rule)


def _skipped(why: str | None = SKIPPED) -> _Processed:
    return _Processed(CallDisposition.SKIPPED, ToolResult(success=False, error=why))


def _asked(asked: AskedCall, why: str | None = None) -> _Processed:
    return _Processed(CallDisposition.AWAITING, ToolResult(success=False, error=why or AWAITING), asked)


def _with_call(
    turn: Turn,
    runtime: TurnRuntime,
    call: FunctionCall,
    judged: JudgedCall,
    processed: _Processed,
    *,
    shadow: tuple[ShadowVerdict, ...],
    fact_reads: tuple[PastCall, ...],
) -> Turn:
    # Without its duration, so that the state of the turn is the same in a replay.
    result = processed.result.model_copy(update={"duration_ms": 0})
    executed = processed.disposition is CallDisposition.EXECUTED
    rule = runtime.snapshot.policy.rules[judged.tool_name] if executed else None
    line = receipt(rule, judged.arguments, result, confirmed=turn.unused_yes is not None) if rule is not None else ()
    number, ended = turn.iterations + 1, processed.disposition
    turn_call = TurnCall(judged.sequence, number, call, judged.arguments, ended, result, line, processed.rule, shadow)
    return turn.to(turn.outcome, calls=(*turn.calls, turn_call), fact_reads=fact_reads)

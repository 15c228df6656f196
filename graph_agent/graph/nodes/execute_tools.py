"""EXECUTE_TOOLS: takes the calls of a batch one by one. Each passes the gates, and runs or waits, before the next is judged.

Calls that wait for the user are put on one card. The calls of a card that the user has confirmed run in order, up to the first
one that is not certainly done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graph_agent.errors import ToolErrorCode
from graph_agent.graph.approval import open_request
from graph_agent.graph.authorized import run_authorized
from graph_agent.graph.batch import Batch
from graph_agent.graph.card import AskedCall, ask_about
from graph_agent.graph.evidence import judge_now
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.graph.undo import read_around
from graph_agent.models.decision import AfterYes, PendingAction
from graph_agent.models.record import CallDisposition
from graph_agent.models.said import Said, SaidRow
from graph_agent.models.tools import ToolResult
from graph_agent.policy.call_in_hand import Gate, GuardVerdict
from graph_agent.policy.committed import MADE, is_done
from graph_agent.policy.guard import GATES, LOOK
from graph_agent.policy.reasons import INVALID_ARGUMENTS, ReasonCode
from graph_agent.policy.shadow import shadow_verdicts
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply import fixed
from graph_agent.reply.authored import by_code, joined
from graph_agent.words.approvals import opened_reply, with_approvers
from graph_agent.words.call_reports import report_call, report_confirmed
from graph_agent.words.origins import warn_of
from graph_agent.words.plan import drawn_from
from graph_agent.words.reasons import for_model
from graph_agent.words.receipts import added_rows, receipt
from graph_agent.words.said import described_by, say_call


async def execute_tools(turn: Turn, runtime: TurnRuntime, gates: tuple[Gate, ...] = GATES) -> Turn:
    batch, first = await Batch.of(turn, runtime, gates), len(turn.calls)
    # None of several runs if one of them is not as it was shown.
    batch.anew = len(batch.calls) > 1 and await _has_changed(batch)
    for place in range(len(batch.calls)):
        await _take(batch, place)
    turn, confirmed, policy = batch.turn, turn.unused_yes, runtime.snapshot.policy
    if batch.request is not None:
        ending = Ending.of(EndingKind.AWAITING, by_code(opened_reply(batch.request)))
        return turn.to("awaiting", approval=batch.request, ending=ending)
    if batch.asked:
        return _awaiting(turn, runtime, batch.asked, turn.calls[first:])
    if confirmed is not None:
        return _after_yes(turn, runtime, confirmed)
    if turn.context.called:
        made = [report_call(call, policy) for call in turn.calls if call.disposition in MADE]
        # Why a call was refused is said by a notice.
        text = joined("\n\n", dict.fromkeys(made)) or by_code(fixed.NOTHING_CHANGED)
        return turn.to("called_done", ending=Ending.of(EndingKind.CALLED, text))
    return turn.to("executed")


async def _take(batch: Batch, place: int) -> None:
    """Judge the next call of the batch, and run it, or ask about it."""
    judged = await _judged(batch, place)
    match judged.disposition:
        case CallDisposition.EXECUTED:
            _end(judged, batch, await _run(judged, batch))
        case CallDisposition.REPEATED:
            _end(judged, batch, batch.turn.calls[judged.repeats - 1].result)
        case CallDisposition.AWAITING | CallDisposition.WAITS:
            _end(judged, batch, ToolResult(success=False, error=_ask(judged, batch)))
        case _:
            _end(judged, batch, ToolResult(success=False, error=for_model(judged.reason), error_code=judged.error_code))
    if judged.ends_batch:
        batch.closed = batch.closed or ReasonCode.LEFT_OUT
    if batch.setting.confirmed is not None and not batch.closed:
        batch.anew = batch.anew or bool(batch.asked)
        if not (batch.anew or is_done(batch.turn.calls[-1], batch.setting.policy)):
            batch.closed = ReasonCode.CARD_STOPPED


async def _judged(batch: Batch, place: int) -> GuardVerdict:
    """Return the verdict on the next call. In an interrupted turn no call is made, and no question is asked."""
    if (judged := batch.came_true(place)) is None:
        hand = batch.hand(place)
        judged = await judge_now(hand, batch) or hand.skipped(ReasonCode.TURN_ENDED)
    ends = judged.disposition in (CallDisposition.REFUSED, CallDisposition.SKIPPED)
    return judged if ends or not batch.runtime.ports.interrupted else judged.hand.skipped(ReasonCode.TURN_ENDED)


async def _run(judged: GuardVerdict, batch: Batch) -> ToolResult:
    """Send a permitted call, the only effect of a turn."""
    assert judged.authorized is not None
    hand, ports, snapshot = judged.hand, batch.runtime.ports, batch.runtime.snapshot
    # A counted read that is repeated would be counted once.
    conditions = snapshot.policy.conditions
    counted = (conditions is not None and conditions.counts(hand.name)) or hand.evidence.draw is not None
    following = batch.following(hand)
    ports.intend([judged.authorized] if following is None else [judged.authorized, following])
    await read_around(hand, batch, after=False)
    result = await run_authorized(judged.authorized, ports, read_retries=0 if counted else snapshot.config.read_retries)
    if hand.rule.mutating:
        batch.reader.forget()
    if result.success:
        await read_around(hand, batch, after=True)
    if not result.may_be_done:
        batch.foreseen = None
    return result


def _ask(judged: GuardVerdict, batch: Batch) -> str | None:
    """Put a call on the card of the batch, or open its request; return why it is not made, for the model."""
    hand, policy = judged.hand, batch.setting.policy
    if judged.disposition is CallDisposition.WAITS:
        batch.request = open_request(batch.turn, batch.runtime, hand)
        roles = fixed.in_roles(batch.request.roles)
        return f"waits for the approval of another person with the role {roles} (request {batch.request.id})"
    origins = () if hand.sources is None else warn_of(policy, hand.name, hand.arguments, hand.sources)
    batch.asked.append(replace(AskedCall.in_hand(hand, judged.because), origins=origins))
    return for_model(judged.reason)


def _end(judged: GuardVerdict, batch: Batch, result: ToolResult) -> None:
    """Add a call to the turn with its result."""
    # Without its duration, so that the state of the turn is the same in a replay.
    result = result.model_copy(update={"duration_ms": 0})
    hand, turn, executed = judged.hand, batch.turn, judged.disposition is CallDisposition.EXECUTED
    said, mutating = _said(judged, batch, result if executed else None), executed and hand.rule.mutating
    added: tuple[SaidRow, ...] = ()
    if said is not None and mutating and (batch.setting.confirmed is not None or described_by(hand.rule, result)):
        added = added_rows(hand.rule, judged.arguments, said, result)
    receipts = receipt(hand.rule, said, result, added) if said is not None and executed else ()
    drawn = hand.evidence.draw if executed else None
    call = TurnCall(
        judged.sequence,
        turn.iterations + 1,
        hand.call,
        judged.arguments,
        judged.disposition,
        result,
        receipts and receipts + drawn_from(drawn),
        judged.reason,
        shadow_verdicts(hand),
        said,
        drawn,
        judged.gate,
    )
    batch.turn = turn.to(turn.outcome, calls=(*turn.calls, call), fact_reads=batch.reader.made)


def _said(judged: GuardVerdict, batch: Batch, result: ToolResult | None) -> Said | None:
    """Return a call as people read it, with what is known by now, from the `result` of one that was made too.

    None if its arguments do not fit its tool.
    """
    hand, reason = judged.hand, judged.reason
    if hand.name not in batch.setting.policy.rules or not isinstance(hand.arguments, dict):
        return None
    if reason is not None and reason.code in INVALID_ARGUMENTS:
        return None
    return say_call(hand, result)


async def _has_changed(batch: Batch) -> bool:
    """True if the object of one of several confirmed calls is not as it was shown, or is gone."""
    for place in range(0 if batch.setting.confirmed is None else len(batch.calls)):
        looked = await judge_now(batch.hand(place), batch, LOOK)
        if looked is not None and (looked.hand.found.question or looked.error_code is ToolErrorCode.NOT_FOUND):
            return True
    return False


def _awaiting(turn: Turn, runtime: TurnRuntime, asked: Sequence[AskedCall], made: Sequence[TurnCall]) -> Turn:
    """Return the turn that ends with the question about the calls that wait."""
    left_out = [
        call for call in made if call.disposition is CallDisposition.SKIPPED and not call.is_because(ReasonCode.SAME_CALL)
    ]
    turn = ask_about(turn, runtime, asked, left_out=bool(left_out))
    assert turn.pending is not None
    lost = turn.pending.then is AfterYes.END and any(runtime.snapshot.policy.is_write(call.call.name) for call in left_out)
    return turn.to("awaiting", notices=(*turn.notices, fixed.ONE_AT_A_TIME) if lost else turn.notices)


def _after_yes(turn: Turn, runtime: TurnRuntime, confirmed: PendingAction) -> Turn:
    """Return the turn after the calls that the user has confirmed: it ends with the report, or the model goes on."""
    policy, interrupted = runtime.snapshot.policy, runtime.ports.interrupted
    closed = turn.context.approval
    reported = report_confirmed(
        turn.confirmed_calls,
        confirmed.each,
        policy,
        interrupted=interrupted,
        approved=closed is not None,
        forbidden=runtime.ports.forbidden,
    )
    report = with_approvers(closed, reported)
    all_done = all(is_done(call, policy) for call in turn.calls)
    goes_on = confirmed.then is AfterYes.GO_ON or (confirmed.then is AfterYes.EXPLAIN and not all_done)
    # After an unknown outcome code has the last word: a model might do the same again in other words.
    unknown = any(call.result.unknown for call in turn.calls)
    # These calls are the first round.
    has_round_left = runtime.snapshot.config.max_iterations > 1
    if not goes_on or interrupted or unknown or not has_round_left:
        return turn.to("confirmed_done", ending=Ending.of(EndingKind.CONFIRMED, report))
    return turn.to("executed", report=report)

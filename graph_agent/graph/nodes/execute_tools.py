"""EXECUTE_TOOLS: the guard judges the whole batch, then the permitted calls run in order."""

from __future__ import annotations

from graph_agent.errors import ToolErrorCode
from graph_agent.graph.authorized import run_authorized
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnCall, TurnRuntime
from graph_agent.models.decision import CONFIRMATION_LIFETIME, PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult
from graph_agent.policy.confirmation import confirmation_question, describe_call
from graph_agent.policy.guard import AWAITING, SKIPPED, Judgement, PastCall, Verdict, judge_batch, stands_for
from graph_agent.policy.receipts import one_line, receipt
from graph_agent.reply.fixed import UNKNOWN_REPLY, confirmed_failure_reply
from graph_agent.reply.forms import REPLY_FORMS


async def execute_tools(turn: Turn, runtime: TurnRuntime) -> Turn:
    consent = turn.pending
    batch = _batch(turn)
    judgements = judge_batch(
        batch,
        policy=runtime.policy,
        user_id=turn.context.user_id,
        decision_id=turn.decision_id,
        past=[PastCall(call.sequence, call.call.name, call.arguments) for call in turn.calls],
        max_calls_per_turn=runtime.config.max_calls_per_turn,
        consent=consent,
    )
    for call, judgement in zip(batch, judgements, strict=True):
        turn = await _carry_out(turn, runtime, call, judgement)
    if consent is not None:
        return turn.to("confirmed_done", ending=_confirmed_ending(turn.calls[-1]))
    return turn.to("executed" if turn.pending is None else "awaiting")


def _batch(turn: Turn) -> list[FunctionCall]:
    """The calls to judge: exactly the confirmed one, or the model's without its reply forms."""
    if turn.pending is not None:
        return [FunctionCall(name=turn.pending.tool_name, arguments=turn.pending.arguments)]
    assert turn.response is not None
    return [call for call in turn.response.function_calls or [] if call.name not in REPLY_FORMS]


async def _carry_out(turn: Turn, runtime: TurnRuntime, call: FunctionCall, judgement: Judgement) -> Turn:
    ports = runtime.ports
    if judgement.verdict is Verdict.AWAITING and not ports.interrupted:
        return await _hold(turn, runtime, call, judgement)
    if judgement.authorized is not None and not ports.interrupted:
        for sequence in judgement.repeats:
            earlier = turn.calls[sequence - 1].result
            if stands_for(earlier):
                return _noted(turn, runtime, call, judgement, CallDisposition.REPEATED, earlier)
        result = await run_authorized(judgement.authorized, ports, read_retries=runtime.config.read_retries)
        return _noted(turn, runtime, call, judgement, CallDisposition.EXECUTED, _timeless(result))
    if judgement.verdict is Verdict.REFUSED:
        refused = ToolResult(success=False, error=judgement.error, error_code=judgement.error_code)
        return _noted(turn, runtime, call, judgement, CallDisposition.REFUSED, refused)
    return _noted(turn, runtime, call, judgement, CallDisposition.SKIPPED, ToolResult(success=False, error=SKIPPED))


async def _hold(turn: Turn, runtime: TurnRuntime, call: FunctionCall, judgement: Judgement) -> Turn:
    """Ask the user. What does not exist is not asked about: the model is told, and the turn goes on."""
    ports, rule = runtime.ports, runtime.policy.rules[judgement.tool_name]
    preview = None
    if rule.traits.preview:
        looked_up = await ports.preview(judgement.tool_name, judgement.arguments)
        if looked_up.error_code is ToolErrorCode.NOT_FOUND:
            return _noted(turn, runtime, call, judgement, CallDisposition.REFUSED, _timeless(looked_up))
        if ports.interrupted:
            skipped = ToolResult(success=False, error=SKIPPED)
            return _noted(turn, runtime, call, judgement, CallDisposition.SKIPPED, skipped)
        described = looked_up.data.get("description") if isinstance(looked_up.data, dict) else None
        preview = described if isinstance(described, str) else None
    created_at = ports.now()
    pending = PendingAction(
        id=ports.new_id(),
        tool_name=judgement.tool_name,
        arguments=judgement.arguments,
        description=f"{one_line(rule.title)}: {describe_call(judgement.arguments, preview)}",
        created_at=created_at,
        expires_at=created_at + CONFIRMATION_LIFETIME,
    )
    pending = pending.replace(signature=ports.sign(pending))
    question = confirmation_question(rule, judgement.arguments, preview)
    waiting = ToolResult(success=False, error=AWAITING)
    turn = _noted(turn, runtime, call, judgement, CallDisposition.AWAITING, waiting)
    return turn.to("awaiting", pending=pending, ending=Ending(EndingKind.AWAITING, question))


def _noted(
    turn: Turn,
    runtime: TurnRuntime,
    call: FunctionCall,
    judgement: Judgement,
    disposition: CallDisposition,
    result: ToolResult,
) -> Turn:
    told = None
    if disposition is CallDisposition.EXECUTED:
        told = receipt(runtime.policy.rules[judgement.tool_name], result)
    noted = TurnCall(judgement.sequence, turn.iterations + 1, call, judgement.arguments, disposition, result, told)
    return turn.to(turn.outcome, calls=(*turn.calls, noted))


def _timeless(result: ToolResult) -> ToolResult:
    """Durations stay out of state: the same answers must make the same turn."""
    return result.model_copy(update={"duration_ms": 0}) if result.duration_ms else result


def _confirmed_ending(call: TurnCall) -> Ending:
    if call.result.unknown:
        return Ending(EndingKind.CONFIRMED, UNKNOWN_REPLY)
    if call.result.success:
        return Ending(EndingKind.CONFIRMED, f"Done: {call.receipt}." if call.receipt else "Done.")
    return Ending(EndingKind.CONFIRMED, confirmed_failure_reply(call.result.error_code))

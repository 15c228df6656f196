"""EXECUTE_TOOLS: lets the guard judge the whole batch, then runs the permitted calls in order."""

from __future__ import annotations

from graph_agent.errors import ToolErrorCode
from graph_agent.graph.authorized import run_authorized
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnCall, TurnRuntime
from graph_agent.models.decision import CONFIRMATION_LIFETIME, PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult
from graph_agent.policy.confirmation import describe_action, question
from graph_agent.policy.guard import AWAITING, SKIPPED, Judgement, PastCall, Verdict, answers_repeat, judge_batch
from graph_agent.policy.receipts import receipt
from graph_agent.reply.fixed import CHANGED_SINCE_ASKED, ONE_AT_A_TIME, UNKNOWN_REPLY, confirmed_failure_reply
from graph_agent.reply.forms import REPLY_FORMS


async def execute_tools(turn: Turn, runtime: TurnRuntime) -> Turn:
    confirmed = turn.pending
    batch = _batch(turn)
    judgements = judge_batch(
        batch,
        policy=runtime.policy,
        user_id=turn.context.user_id,
        decision_id=turn.decision_id,
        past=[PastCall(call.sequence, call.call.name, call.arguments, _may_have_run(call)) for call in turn.calls],
        max_calls_per_turn=runtime.config.max_calls_per_turn,
        confirmed=confirmed,
    )
    for call, judgement in zip(batch, judgements, strict=True):
        turn = await _process_call(turn, runtime, call, judgement, confirmed)
    if confirmed is not None and turn.outcome != "awaiting":
        return turn.to("confirmed_done", ending=_confirmed_ending(turn.calls[-1]))
    if turn.pending is None:
        return turn.to("executed")
    if any(_is_change_left_out(runtime, judgement) for judgement in judgements):
        return turn.to("awaiting", notices=(*turn.notices, ONE_AT_A_TIME))
    return turn.to("awaiting")


def _is_change_left_out(runtime: TurnRuntime, judgement: Judgement) -> bool:
    """True if a call behind the question was not made, although it may change something."""
    rule = runtime.policy.rules.get(judgement.tool_name)
    return judgement.verdict is Verdict.SKIPPED and rule is not None and rule.mutating


def _may_have_run(call: TurnCall) -> bool:
    return call.disposition is CallDisposition.EXECUTED and (call.result.success or call.result.unknown)


def _batch(turn: Turn) -> list[FunctionCall]:
    """Return the calls to judge: exactly the confirmed one, or the model's calls without reply forms."""
    if turn.pending is not None:
        return [FunctionCall(name=turn.pending.tool_name, arguments=turn.pending.arguments)]
    assert turn.response is not None
    return [call for call in turn.response.function_calls or [] if call.name not in REPLY_FORMS]


async def _process_call(
    turn: Turn, runtime: TurnRuntime, call: FunctionCall, judgement: Judgement, confirmed: PendingAction | None
) -> Turn:
    ports = runtime.ports
    if judgement.verdict is Verdict.AWAITING and not ports.interrupted:
        return await _ask_user(turn, runtime, call, judgement)
    if judgement.verdict in (Verdict.PERMITTED, Verdict.REPEATED) and not ports.interrupted:
        if confirmed is not None and (changed := await _check_preview(turn, runtime, call, judgement, confirmed)) is not None:
            return changed
        for sequence in judgement.repeats:
            earlier = turn.calls[sequence - 1].result
            if answers_repeat(earlier):
                return _with_call(turn, runtime, call, judgement, CallDisposition.REPEATED, earlier)
        if judgement.authorized is not None:
            result = await run_authorized(judgement.authorized, ports, read_retries=runtime.config.read_retries)
            return _with_call(turn, runtime, call, judgement, CallDisposition.EXECUTED, _without_duration(result))
    if judgement.error_code is not None:
        refused = ToolResult(success=False, error=judgement.error, error_code=judgement.error_code)
        return _with_call(turn, runtime, call, judgement, CallDisposition.REFUSED, refused)
    return _with_call(turn, runtime, call, judgement, CallDisposition.SKIPPED, ToolResult(success=False, error=SKIPPED))


async def _ask_user(turn: Turn, runtime: TurnRuntime, call: FunctionCall, judgement: Judgement) -> Turn:
    """Ask for confirmation. If the object of the call does not exist, refuse it instead, with a reason for the model."""
    ports, rule = runtime.ports, runtime.policy.rules[judgement.tool_name]
    preview = None
    if rule.traits.preview:
        preview = await ports.preview(judgement.tool_name, judgement.arguments)
        if preview.error_code is ToolErrorCode.NOT_FOUND:
            return _with_call(turn, runtime, call, judgement, CallDisposition.REFUSED, _without_duration(preview))
        if ports.interrupted:
            skipped = ToolResult(success=False, error=SKIPPED)
            return _with_call(turn, runtime, call, judgement, CallDisposition.SKIPPED, skipped)
    return _await_confirmation(turn, runtime, call, judgement, describe_action(rule, judgement.arguments, preview))


async def _check_preview(
    turn: Turn, runtime: TurnRuntime, call: FunctionCall, judgement: Judgement, confirmed: PendingAction
) -> Turn | None:
    """Return None if the object of a confirmed call is still as it was shown to the user, else the turn without the call.

    If the object has changed, the user is asked again. If there is no preview of it, the call is refused.
    """
    ports, rule = runtime.ports, runtime.policy.rules[judgement.tool_name]
    if not rule.traits.preview:
        return None
    preview = await ports.preview(judgement.tool_name, judgement.arguments)
    if not preview.success:
        # Only the preview has an unknown outcome. The call itself was not sent, so its outcome is known.
        code = ToolErrorCode.TOOL_EXECUTION_ERROR if preview.unknown else preview.error_code
        failed = ToolResult(success=False, error=preview.error, error_code=code)
        return _with_call(turn, runtime, call, judgement, CallDisposition.REFUSED, failed)
    description = describe_action(rule, judgement.arguments, preview)
    if description == confirmed.description:
        return None
    return _await_confirmation(turn, runtime, call, judgement, description, before=f"{CHANGED_SINCE_ASKED} ")


def _await_confirmation(
    turn: Turn, runtime: TurnRuntime, call: FunctionCall, judgement: Judgement, description: str, *, before: str = ""
) -> Turn:
    ports = runtime.ports
    created_at = ports.now()
    pending = PendingAction(
        id=ports.new_id(),
        tool_name=judgement.tool_name,
        arguments=judgement.arguments,
        description=description,
        created_at=created_at,
        expires_at=created_at + CONFIRMATION_LIFETIME,
    )
    pending = pending.replace(signature=ports.sign(pending))
    waiting = ToolResult(success=False, error=AWAITING)
    turn = _with_call(turn, runtime, call, judgement, CallDisposition.AWAITING, waiting)
    return turn.to("awaiting", pending=pending, ending=Ending(EndingKind.AWAITING, before + question(description)))


def _with_call(
    turn: Turn,
    runtime: TurnRuntime,
    call: FunctionCall,
    judgement: Judgement,
    disposition: CallDisposition,
    result: ToolResult,
) -> Turn:
    executed = disposition is CallDisposition.EXECUTED
    line = receipt(runtime.policy.rules[judgement.tool_name], judgement.arguments, result) if executed else None
    turn_call = TurnCall(judgement.sequence, turn.iterations + 1, call, judgement.arguments, disposition, result, line)
    return turn.to(turn.outcome, calls=(*turn.calls, turn_call))


def _without_duration(result: ToolResult) -> ToolResult:
    """Return `result` without its duration, so that the state of the turn is the same in a replay."""
    return result.model_copy(update={"duration_ms": 0}) if result.duration_ms else result


def _confirmed_ending(call: TurnCall) -> Ending:
    if call.result.unknown:
        return Ending(EndingKind.CONFIRMED, UNKNOWN_REPLY)
    if call.result.success:
        return Ending(EndingKind.CONFIRMED, f"Done: {call.receipt}." if call.receipt else "Done.")
    return Ending(EndingKind.CONFIRMED, confirmed_failure_reply(call.result.error_code))

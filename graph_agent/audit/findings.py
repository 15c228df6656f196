"""Findings: sentences that explain from the trace alone why a decision came out as it did."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from graph_agent.audit.trace import ConstitutionInForce, DecisionTrace
from graph_agent.errors import ConstitutionError, ToolErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import AnswerState, DecisionType, OutcomeCategory, PendingAction
from graph_agent.models.facts import COUNTED_WINDOWS, FactRead
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import CallDisposition, DecisionRecord, EntryKind, InterruptReason, RecordStatus, ToolInvocation
from graph_agent.models.tools import ToolResult
from graph_agent.policy.constitution import Constitution
from graph_agent.reply.causes import CAUSES, FailureCause, cause_of
from graph_agent.reply.forms import REPLY_FORMS, read_form
from graph_agent.reply.text import one_line

SLOW_MS = 1000
"""A call that takes at least this long, and at least half of the turn, is reported."""

_INTERRUPTIONS = {
    InterruptReason.DEADLINE: "The turn's deadline passed.",
    InterruptReason.CANCELLED: "The turn was cancelled: the user stopped it, or its caller was gone.",
    InterruptReason.SHUTDOWN: "The process was shut down during the turn.",
    InterruptReason.CRASH: "The process crashed during the turn; the turn was closed later from its record.",
    InterruptReason.FAILURE: "The runtime failed with an unexpected exception; its log has the traceback.",
    InterruptReason.RECORD: "The database stopped accepting rows during the turn, so nothing further was done.",
    InterruptReason.RESENT: "The turn was started again where it may have sent a call without a ledger; it was not sent again.",
    InterruptReason.STOPPED: "The operator had stopped what the turn was about to do, so it did nothing further.",
    InterruptReason.RULES: "Other rules were put in force than those of the turn, so it did nothing further.",
}
_NOT_LISTED = "it is not on the constitution's list of tools"

_REFUSED_MESSAGES = {
    OutcomeCategory.RATE_LIMITED: "The user had reached the limit of turns per minute; the model was not called.",
    OutcomeCategory.USER_INPUT: "The message was refused because of its size or content; the model was not called.",
}
_VOID_ANSWERS = {
    AnswerState.SUPERSEDED: "a later question has replaced",
    AnswerState.WITHDRAWN: "the user has withdrawn",
    AnswerState.EXPIRED: "has expired",
    AnswerState.USED: "has been answered before",
}
_NOT_FOLLOWED = {
    AnswerState.LATE: "came in time, but its turn was continued only after the question had expired",
    AnswerState.OTHER_RULES: "was not used up, because other rules are in force here",
    AnswerState.INTERRUPTED: "was not used up, because the turn was interrupted before",
}
"""Why a valid answer had no effect."""


def findings(trace: DecisionTrace) -> list[str]:
    """Return the findings in the order of events; if there are none, one sentence that says so."""
    found = list(_findings(trace))
    return found or ["Nothing went wrong."]


def failure_cause(record: DecisionRecord) -> FailureCause | None:
    """Return the cause for which the last model call of a turn failed; None if it did not fail."""
    if record.decision.failure is not None:
        return CAUSES[record.decision.failure]
    calls = [entry for entry in record.entries if entry.kind is EntryKind.MODEL]
    response = LLMResponse.model_validate(calls[-1].result) if calls else None
    if response is None or (response.finish_reason != "error" and "ERROR_RESPONSE" not in record.states):
        return None
    return cause_of(response)


def _findings(trace: DecisionTrace) -> Iterator[str]:
    record = trace.record
    if record is None:
        yield "The turn is running, or its process has crashed: it is still PENDING, and there is no decision yet."
        return
    if not record.entries and not record.states and record.decision.outcome_category in _REFUSED_MESSAGES:
        yield _REFUSED_MESSAGES[record.decision.outcome_category]
    yield from _confirmation(record)
    if (undoes := record.header.context.undoes) is not None:
        numbers = ", ".join(str(one.sequence) for one in undoes.calls)
        yield f"The undo of decision {undoes.decision_id} was asked for, of its calls {numbers}."
    yield from _model_calls(record)
    for entry in record.entries:
        if entry.kind is EntryKind.READ:
            read = FactRead.recorded(entry.result)
            what = f"{read.tool} {canonical_json(read.arguments)}"
            when = "before a call" if read.after is None else f"after call {read.after}"
            yield f"The runtime read {one_line(what, 200)} {when}: {one_line(read.in_words, 400)}."
        if entry.kind is EntryKind.UNDO:
            yield from _undo(entry.result)
        if entry.kind is EntryKind.SETTLE:
            yield from _settled(ToolResult.model_validate(entry.result), "The answer of a call was lost")
        if entry.kind is EntryKind.RESERVE and (drawn := entry.result.get("mandate")) is not None:
            yield f"Drawn from line {drawn['line']} of plan {drawn['id']}: call {drawn['drawn']} of {drawn['times']}."
        if entry.kind is EntryKind.RESERVE and "used" in entry.result:
            yield f"Budget of {entry.result['tool']}, with this call: {used_text(entry.result['used'])}."
    for invocation in record.invocations:
        yield from _tool_call(invocation)
    for sequence, by in sorted(trace.undone_by.items()):
        yield f"Tool call {sequence} was undone by decision {by}, or may have been."
    for settlement in trace.settlements:
        if settlement.result.read_back is not None:
            yield from _settled(
                settlement.result, f"The outcome of call {settlement.sequence} was learned at {_at(settlement.settled_at)}"
            )
            continue
        effect = "it took effect" if settlement.result.success else "it did not take effect and never will"
        yield f"The outcome of call {settlement.sequence} was settled under its key at {_at(settlement.settled_at)}: {effect}."
    if "TIMEOUT_RESPONSE" in record.states:
        yield f"The cap was reached: after {record.iterations} tool rounds the model still had not answered."
    yield from _interruption(record)
    yield from _ending(record)
    yield from _slowness(record)
    if trace.constitution is not None and trace.constitution.previous_digest is not None:
        yield from _constitution_change(trace.constitution)


def _undo(claim: dict[str, Any]) -> Iterator[str]:
    decision_id, _, number = claim["undoes"].rpartition(":")
    by = claim["undone_by"]
    if by is None:
        yield f"A call of this decision undoes call {number} of decision {decision_id}."
    else:
        yield f"Call {number} of decision {decision_id} was not undone here: decision {by} had undone it, or may have."


def used_text(used: dict[str, Any]) -> str:
    """Return what the windows of a budget have, for people."""
    return "; ".join(_window_text(window, used[window]) for window in COUNTED_WINDOWS if window in used)


def _window_text(window: str, total: dict[str, Any]) -> str:
    return ", ".join([f"{total['calls']} this {window}", *(f"{name} {amount}" for name, amount in total["sum"].items())])


def _confirmation(record: DecisionRecord) -> Iterator[str]:
    context = record.header.context
    pending, answers = context.pending_confirmation, context.answers
    if pending is None:
        # A typed answer is void, too, if the question on the screen is gone.
        named = answers or (context.shown if record.decision.void_answer is not None else None)
        if named is not None:
            why = _VOID_ANSWERS.get(named.state or AnswerState.UNKNOWN, "was not asked of this user in this conversation")
            yield f"The answer named the question {named.pending_action}, which {why}. Nothing was called."
        return
    tools = ", ".join(call.tool_name for call in pending.each)
    what = f"The confirmation of {tools} ({one_line(pending.description)})"
    verdict = next((entry for entry in record.entries if entry.kind is EntryKind.VERIFY), None)
    if verdict is None:
        return
    if verdict.result is not True:
        yield f"{what} was invalid: its signature does not match this user and conversation. It was ignored."
        return
    if (void := record.decision.void_answer) in _NOT_FOLLOWED:
        differing = ", ".join(next((entry.result for entry in record.entries if entry.kind is EntryKind.RULES), []))
        yield f"{what} {_NOT_FOLLOWED[void]}{differing and f' ({differing})'}. Nothing was called."
        return
    clock_reading = next((entry.result for entry in record.entries[verdict.n + 1 :] if entry.kind is EntryKind.CLOCK), None)
    now = record.header.started_at if clock_reading is None else datetime.fromisoformat(str(clock_reading))
    used = next((entry for entry in record.entries if entry.kind is EntryKind.CONSUME), None)
    if not pending.can_be_answered(now):
        late = round((now - pending.expires_at).total_seconds())
        times = f"valid until {_at(pending.expires_at)}, answered {_at(now)}, {late} s too late"
        yield f"{what} had expired: {times}. It was ignored."
    elif used is not None and used.result is not True:
        yield f"{what} had been used before. It was ignored."
    else:
        yield f"{what} {_answer(record, pending)}"


def _answer(record: DecisionRecord, pending: PendingAction) -> str:
    """Return the user's answer to `pending`, which was valid, as the decision shows it."""
    decision, answers = record.decision, record.header.context.answers
    asked_anew = decision.pending_action is not None and EntryKind.MODEL not in {entry.kind for entry in record.entries}
    if answers is not None and answers.pending_action != pending.id:
        return "was not touched: the answer named another question."
    if decision.decision_type is DecisionType.EXECUTE_PENDING or decision.confirmed:
        return "was given by the user's own answer."
    if decision.decision_type is DecisionType.CANCEL_PENDING:
        return "was declined by the user."
    if EntryKind.MINT in {entry.kind for entry in record.entries}:
        return "was given by the user's own answer: the plan is in force."
    if decision.pending_action is not None and decision.pending_action.id == pending.id:
        return "was asked for again: the answer was unclear."
    if asked_anew:
        return "was given, but the object had changed since the question: the user was asked anew."
    return "was dropped: the message was neither yes nor no."


def _model_calls(record: DecisionRecord) -> Iterator[str]:
    model_entries = [entry for entry in record.entries if entry.kind is EntryKind.MODEL]
    # The turn then ends with a reply to a failure although its last answer was used.
    is_interrupted = any(entry.kind is EntryKind.INTERRUPT for entry in record.entries)
    for number, entry in enumerate(model_entries, start=1):
        response = LLMResponse.model_validate(entry.result)
        if response.finish_reason == "error":
            cause = cause_of(response)
            wait = "" if response.retry_after is None else f"; it asked to wait {response.retry_after:g} s"
            yield f"Model call {number} failed after {entry.ms} ms: {cause.code.value}, {cause}{wait}."
        elif response.finish_reason == "max_tokens":
            calls = len(response.function_calls or [])
            yield f"The answer of model call {number} was cut off at the token limit; its {calls} tool calls were discarded."
        elif number == len(model_entries) and "ERROR_RESPONSE" in record.states and not is_interrupted:
            yield f"The answer of model call {number} could not be used: {_unusable(response, record)}."


def _unusable(response: LLMResponse, record: DecisionRecord) -> str:
    if record.decision.failure is not None:
        return str(CAUSES[record.decision.failure])
    calls = response.function_calls or []
    ids = [call.id for call in calls if call.id]
    if response.finish_reason == "tool_calls" and not calls:
        return "it announced tool calls and made none"
    if any(not call.name for call in calls):
        return "it made a call without a name"
    if len(set(ids)) < len(ids):
        return "two of its calls had the same id"
    if calls and all(call.name in REPLY_FORMS for call in calls) and not any(read_form(call).text for call in calls):
        return "its reply form was empty"
    if calls:
        return f"it made {len(calls)} calls, which is too many, or some are malformed"
    if not (response.content or "").strip():
        return "it was empty"
    return "nothing in its text may be shown"


def _tool_call(invocation: ToolInvocation) -> Iterator[str]:
    call = f"Tool call {invocation.sequence}, {invocation.tool_name},"
    code, text = invocation.error_code or "no code", invocation.error_message or "no further details"
    known = ToolErrorCode(code) if code in ToolErrorCode.__members__ else None
    match invocation.disposition:
        case CallDisposition.REFUSED:
            why = _NOT_LISTED if known is ToolErrorCode.TOOL_NOT_FOUND else text
            yield f"{call} was refused and not sent: {code}, {why}."
        case CallDisposition.EXECUTED if not invocation.success:
            unknown = ToolResult(success=False, error_code=known).unknown
            became = "was sent, but its result is unknown: it may have taken effect" if unknown else "ran and failed"
            yield f"{call} {became}: {code}, {text} ({invocation.duration_ms} ms)."
        case CallDisposition.REPEATED:
            yield f"{call} repeated a write of this turn and got the result of the first one."
        case CallDisposition.AWAITING:
            yield f"{call} waits for the user's confirmation."
        case CallDisposition.WAITS:
            yield f"{call} waits for the approval of other people."
        case CallDisposition.SKIPPED:
            yield f"{call} was skipped: the turn stopped before it."


def _interruption(record: DecisionRecord) -> Iterator[str]:
    for entry in record.entries:
        if entry.kind is EntryKind.INTERRUPT:
            in_flight = entry.result.get("in_flight")
            under_way = f" A call of the port '{in_flight['kind']}' was in progress, and was abandoned." if in_flight else ""
            yield _INTERRUPTIONS[InterruptReason(entry.result["reason"])] + under_way
    if record.status is RecordStatus.INTERRUPTED and not any(entry.kind is EntryKind.INTERRUPT for entry in record.entries):
        yield "The turn was interrupted."


def _ending(record: DecisionRecord) -> Iterator[str]:
    outcome = record.decision.outcome_category
    if outcome is OutcomeCategory.OUT_OF_SCOPE:
        yield "The model declined the request as out of scope."
    elif outcome is not None and outcome.category == "AMBIGUITY":
        yield f"The model asked the user instead of acting: {outcome.value.partition(':')[2]}."


def _slowness(record: DecisionRecord) -> Iterator[str]:
    executed = iter(one for one in record.invocations if one.disposition is CallDisposition.EXECUTED)
    models = 0
    for entry in record.entries:
        models += entry.kind is EntryKind.MODEL
        what = f"model call {models}" if entry.kind is EntryKind.MODEL else f"the port '{entry.kind.value}'"
        if entry.kind is EntryKind.EXECUTE and (invocation := next(executed, None)) is not None:
            what = f"tool call {invocation.sequence}, {invocation.tool_name}"
        if entry.ms >= SLOW_MS and entry.ms * 2 >= record.duration_ms:
            yield f"Slow: {entry.ms} of {record.duration_ms} ms were spent in {what}."


def _constitution_change(constitution: ConstitutionInForce) -> Iterator[str]:
    since = "" if constitution.since is None else f" since {_at(constitution.since)}"
    changes = _grant_changes(constitution)
    before = f"before it {str(constitution.previous_digest)[:12]}"
    yield f"Constitution {constitution.digest[:12]} is in force{since}, {before}; what changed: {changes}."


def _grant_changes(constitution: ConstitutionInForce) -> str:
    if constitution.text is None or constitution.previous_text is None:
        return "unknown, because a text is missing"
    try:
        now, then = Constitution.parse(constitution.text), Constitution.parse(constitution.previous_text)
    except ConstitutionError:
        return "unknown, because a text cannot be parsed"
    granted = {grant.name: grant for grant in now.grants}
    before = {grant.name: grant for grant in then.grants}
    changes = [f"{name} is no longer granted" for name in before if name not in granted]
    changes += [f"{name} is newly granted" for name in granted if name not in before]
    for name in granted.keys() & before.keys():
        if granted[name].requires_confirmation != before[name].requires_confirmation:
            changes.append(f"{name} {'now needs' if granted[name].requires_confirmation else 'no longer needs'} confirmation")
    lines = set(constitution.text.splitlines()) ^ set(constitution.previous_text.splitlines())
    return ", ".join(sorted(changes)) if changes else f"no grant, {len(lines)} lines of the text"


def _settled(result: ToolResult, what: str) -> Iterator[str]:
    """Yield a sentence about what a read found of a change whose answer was lost."""
    if (read := result.read_back) is not None:
        outcome = "found done" if result.success else "not found, which proves nothing" if result.unknown else "found not done"
        found = f"{read.tool} {canonical_json(read.arguments)} returned {canonical_json(read.found)}"
        yield f"{what}: it was {outcome}: {one_line(found, 500)}."


def _at(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"

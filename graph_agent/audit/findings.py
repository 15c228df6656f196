"""What a stranger should know of a decision: why it came out as it did, read from its trace alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from graph_agent.audit.trace import DecisionTrace, PolicyInForce
from graph_agent.errors import ConstitutionError, ToolErrorCode
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import LLMErrorCode, LLMResponse
from graph_agent.models.record import (
    CallDisposition,
    DecisionRecord,
    EntryKind,
    InterruptReason,
    RecordEntry,
    RecordStatus,
    ToolInvocation,
)
from graph_agent.models.tools import ToolResult
from graph_agent.policy.confirmation import Consent, alive, read_consent
from graph_agent.policy.constitution import Constitution
from graph_agent.reply.forms import REPLY_FORMS, read_form

SLOW_MS = 1000
"""A port that takes this long, and most of the turn, is worth a word."""

_INTERRUPTED = {
    InterruptReason.DEADLINE: "The turn's deadline passed; what was under way was left behind.",
    InterruptReason.CANCELLED: "Whoever asked went away, and the turn was cancelled.",
    InterruptReason.SHUTDOWN: "The process was shut down in mid-turn.",
    InterruptReason.CRASH: "The process died in mid-turn; the turn was closed later from its record.",
    InterruptReason.FAILURE: "The runtime failed with an exception nobody expected; its own log has the traceback.",
    InterruptReason.RECORD: "The log database stopped taking rows in mid-turn, so nothing further was done.",
}
_MODEL_FAILED = {
    LLMErrorCode.UNAVAILABLE: "the model could not be reached, or its server failed",
    LLMErrorCode.TIMEOUT: "the model gave no complete answer in time",
    LLMErrorCode.RATE_LIMITED: "the provider refused for quota",
    LLMErrorCode.INVALID_RESPONSE: "what the model sent was malformed",
    LLMErrorCode.BLOCKED: "the provider's content filter blocked the answer",
}
_REFUSED = {
    ToolErrorCode.TOOL_NOT_FOUND: "it is not on the constitution's list of tools",
    ToolErrorCode.ACCESS_DENIED: "it named another user than the one who is signed in",
}


def findings(trace: DecisionTrace) -> list[str]:
    """Sentences, in the order things happened; one that says so where nothing went wrong."""
    found = list(_findings(trace))
    return found or ["Nothing went wrong."]


def _findings(trace: DecisionTrace) -> Iterator[str]:
    record = trace.record
    if record is None:
        yield "The turn is running, or its process has died: it is still PENDING, and nothing of it was decided."
        return
    if not record.entries and not record.states:
        yield from _never_began(record)
    yield from _confirmation(record)
    yield from _model_calls(record)
    for invocation in record.invocations:
        yield from _tool_call(invocation)
    if "TIMEOUT_RESPONSE" in record.states:
        yield f"The cap was reached: after {record.iterations} tool rounds the model still had not answered."
    yield from _interruption(record)
    yield from _ending(record)
    yield from _slowness(record)
    if trace.policy is not None and trace.policy.previous_digest is not None:
        yield from _policy_change(trace.policy)


def _never_began(record: DecisionRecord) -> Iterator[str]:
    match record.decision.outcome_category:
        case OutcomeCategory.RATE_LIMITED:
            yield "The user had used up the turns of this minute; the model was not asked."
        case OutcomeCategory.USER_INPUT:
            yield "The message was refused for its size or content; the model was not asked."


def _confirmation(record: DecisionRecord) -> Iterator[str]:
    pending = record.header.context.pending_confirmation
    if pending is None:
        return
    what = f"The confirmation of {pending.tool_name} ({pending.description})"
    verdict = next((entry for entry in record.entries if entry.kind is EntryKind.VERIFY), None)
    if verdict is None:
        return
    if verdict.result is not True:
        yield f"{what} was void: its signature does not fit this user and conversation. It was treated as none."
        return
    told = next((entry.result for entry in record.entries[verdict.n + 1 :] if entry.kind is EntryKind.CLOCK), None)
    now = record.header.started_at if told is None else datetime.fromisoformat(str(told))
    used = next((entry for entry in record.entries if entry.kind is EntryKind.CONSUME), None)
    if not alive(pending, now):
        late = round((now - pending.expires_at).total_seconds())
        times = f"good until {_at(pending.expires_at)}, answered {_at(now)}, {late} s too late"
        yield f"{what} had expired: {times}. It was treated as none."
    elif used is not None and used.result is not True:
        yield f"{what} had been used before, so it counted for nothing."
    else:
        consent = read_consent(record.header.context.message)
        yield {
            Consent.YES: f"{what} was given by the user's own message.",
            Consent.NO: f"{what} was declined by the user.",
            Consent.NEITHER: f"{what} was dropped: the message was neither yes nor no.",
        }[consent]


def _model_calls(record: DecisionRecord) -> Iterator[str]:
    asked = [entry for entry in record.entries if entry.kind is EntryKind.MODEL]
    for number, entry in enumerate(asked, start=1):
        response = LLMResponse.model_validate(entry.result)
        if response.finish_reason == "error":
            code = response.error or LLMErrorCode.INVALID_RESPONSE
            wait = "" if response.retry_after is None else f"; it asked to wait {response.retry_after:g} s"
            yield f"Model call {number} failed after {entry.ms} ms: {code.value}, {_MODEL_FAILED[code]}{wait}."
        elif response.finish_reason == "max_tokens":
            calls = len(response.function_calls or [])
            yield f"The answer of model call {number} was cut at the token limit; {calls} tool calls in it were discarded."
        elif number == len(asked) and "ERROR_RESPONSE" in record.states:
            yield f"The answer of model call {number} could not be used: {_unusable(response)}."


def _unusable(response: LLMResponse) -> str:
    calls = response.function_calls or []
    ids = [call.id for call in calls if call.id]
    if response.finish_reason == "tool_calls" and not calls:
        return "it announced tool calls and made none"
    if any(not call.name for call in calls):
        return "it made a call without a name"
    if len(set(ids)) < len(ids):
        return "two of its calls had one id"
    if calls and all(call.name in REPLY_FORMS for call in calls) and not any(read_form(call) for call in calls):
        return "its reply form said nothing"
    if calls:
        return f"it made {len(calls)} calls that are malformed or too many"
    if not (response.content or "").strip():
        return "it was empty"
    return "its text is no answer but an imitated call"


def _tool_call(invocation: ToolInvocation) -> Iterator[str]:
    call = f"Tool call {invocation.sequence}, {invocation.tool_name},"
    code, text = invocation.error_code or "no code", invocation.error_message or "nothing further is known"
    known = ToolErrorCode(code) if code in ToolErrorCode.__members__ else None
    match invocation.disposition:
        case CallDisposition.REFUSED:
            why = text if known is None else _REFUSED.get(known, text)
            yield f"{call} was refused and not sent: {code}, {why}."
        case CallDisposition.EXECUTED if not invocation.success:
            unknown = ToolResult(success=False, error_code=known).unknown
            became = "ran without an answer: nobody knows whether it took effect" if unknown else "ran and failed"
            yield f"{call} {became}: {code}, {text} ({invocation.duration_ms} ms)."
        case CallDisposition.REPEATED:
            yield f"{call} repeated a write of this turn and was answered with that one's result."
        case CallDisposition.AWAITING:
            yield f"{call} waits for the user's own yes."
        case CallDisposition.SKIPPED:
            yield f"{call} was skipped: the turn stopped before it."


def _interruption(record: DecisionRecord) -> Iterator[str]:
    for entry in record.entries:
        if entry.kind is EntryKind.INTERRUPT:
            in_flight = entry.result.get("in_flight")
            under_way = f" Under way was a call of the port '{in_flight['kind']}'." if in_flight else ""
            yield _INTERRUPTED[InterruptReason(entry.result["reason"])] + under_way
    if record.status is RecordStatus.INTERRUPTED and not any(entry.kind is EntryKind.INTERRUPT for entry in record.entries):
        yield "The turn was ended from outside."


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
        if _is_slow(entry, record):
            yield f"Slow: {entry.ms} of {record.duration_ms} ms were spent in {what}."


def _is_slow(entry: RecordEntry, record: DecisionRecord) -> bool:
    return entry.ms >= SLOW_MS and entry.ms * 2 >= record.duration_ms


def _policy_change(policy: PolicyInForce) -> Iterator[str]:
    since = "" if policy.since is None else f" since {_at(policy.since)}"
    changes = _grant_changes(policy)
    before = f"before it {str(policy.previous_digest)[:12]}"
    yield f"Constitution {policy.digest[:12]} is in force{since}, {before}; what changed: {changes}."


def _grant_changes(policy: PolicyInForce) -> str:
    if policy.text is None or policy.previous_text is None:
        return "not known, a text is missing"
    try:
        now, then = Constitution.parse(policy.text), Constitution.parse(policy.previous_text)
    except ConstitutionError:
        return "not known, a text cannot be read"
    granted = {grant.name: grant for grant in now.grants}
    before = {grant.name: grant for grant in then.grants}
    told = [f"{name} is no longer granted" for name in before if name not in granted]
    told += [f"{name} is newly granted" for name in granted if name not in before]
    for name in granted.keys() & before.keys():
        if granted[name].requires_confirmation != before[name].requires_confirmation:
            told.append(f"{name} {'now needs' if granted[name].requires_confirmation else 'no longer needs'} confirmation")
    lines = set(policy.text.splitlines()) ^ set(policy.previous_text.splitlines())
    return ", ".join(sorted(told)) if told else f"no grant, {len(lines)} lines of the text"


def _at(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"

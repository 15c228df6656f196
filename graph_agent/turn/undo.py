"""The undo of a decision: which of its changes can be undone now, and the calls that undo them, the last change first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from graph_agent.errors import ServiceError, ServiceErrorCode, no_closed_decision
from graph_agent.models.facts import FactRead
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition, DecisionRecord, EntryKind, ToolInvocation
from graph_agent.models.said import Said
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import RestoredObject, UndoneCall, UndoneDecision
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.constitution import UndoneBy
from graph_agent.policy.gates import MAX_CALLS_PER_ROUND
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.policy.undo import NotUndoableError, filled, place_of, read_arguments
from graph_agent.record.audit_writer import AuditWriter
from graph_agent.reply import fixed
from graph_agent.reply.text import one_line
from graph_agent.words.reasons import undone_already
from graph_agent.words.said import in_line, say
from graph_agent.words.values import time_in_words

READ_WITHIN: Final = timedelta(seconds=10)
"""A read that was made later after the change may have seen what others have changed since."""
_MAX_DESCRIPTION = 160
"""The number of characters by which a change that stays is named."""
_NO_CHANGE = "This decision has made no change that could be undone."


@dataclass(frozen=True, slots=True)
class Undoable:
    """The part of a decision that can be undone now: the calls, and those that they undo, the last change first."""

    called: tuple[FunctionCall, ...]
    undone: tuple[UndoneCall, ...]
    stays: tuple[tuple[str, str], ...]
    """The other changes, in words, and for each the reason as a clause."""
    uncompared: tuple[str, ...]
    """The changes, in words, whose undo is not compared with what they have left: nothing says how that was."""
    unknown: bool
    """True if the outcome of a change is not known: it may be settled, and undone then."""

    @property
    def until(self) -> datetime | None:
        """The end of the time for which all of it can be undone; None if nothing can be."""
        return min((one.until for one in self.undone), default=None)

    @property
    def problem(self) -> str | None:
        """The reason why nothing can be undone, as a sentence."""
        if self.undone:
            return None
        return f"Nothing can be undone: {listed(self.stays)}." if self.stays else _NO_CHANGE

    def decision(self, decision_id: str) -> UndoneDecision:
        """Return what the undoing decision names. Raises `ServiceError` NOT_UNDOABLE if nothing can be undone."""
        if (problem := self.problem) is not None:
            raise ServiceError(ServiceErrorCode.NOT_UNDOABLE, problem)
        left_out = [fixed.not_undone(what, why) for what, why in self.stays]
        said = (*left_out, *map(fixed.may_have_changed, self.uncompared))
        return UndoneDecision(decision_id=decision_id, calls=self.undone, left_out=said)


async def load_own(audit: AuditWriter, decision_id: str, user_id: str) -> DecisionRecord:
    """Return a closed decision of the user. Raises `ServiceError` DECISION_NOT_FOUND, also for that of another user."""
    record = await audit.load(decision_id)
    if not isinstance(record, DecisionRecord) or record.header.context.user_id != user_id:
        raise no_closed_decision()
    return record


def undoable(
    record: DecisionRecord,
    policy: CompiledPolicy,
    undone_by: Mapping[int, str],
    settled: Mapping[int, ToolResult],
    now: datetime,
) -> Undoable:
    """Return what can be undone of a decision at the time `now`, by the markers in force.

    By the number of the call, `undone_by` has the decision that has undone it, or may have, and `settled` the result that was
    settled after the decision.
    """
    found: list[tuple[FunctionCall, UndoneCall]] = []
    stays: list[tuple[str, str]] = []
    uncompared: list[str] = []
    unknown = False
    for call, rule, result in reversed([*changes_of(record, policy, settled)]):
        unknown = unknown or result.unknown
        try:
            if len(found) == MAX_CALLS_PER_ROUND:
                raise NotUndoableError(f"at most {MAX_CALLS_PER_ROUND} at once: undo the rest after these")
            found.append(_undo_of(record, call, result, rule, policy, undone_by.get(call.sequence), now))
            if not found[-1][1].is_compared:
                uncompared.append(described(record, rule, call))
        except NotUndoableError as exc:
            stays.append((described(record, rule, call), str(exc)))
    calls, undone = tuple(one for one, _ in found), tuple(one for _, one in found)
    return Undoable(calls, undone, tuple(stays), tuple(uncompared), unknown)


def changes_of(
    record: DecisionRecord, policy: CompiledPolicy, settled: Mapping[int, ToolResult]
) -> Iterator[tuple[ToolInvocation, ToolRule | None, ToolResult]]:
    """Yield each change of a decision that may have been made, with its rule, if it is listed, and its result as settled."""
    for call in record.invocations:
        rule, result = policy.rules.get(call.tool_name), settled.get(call.sequence, call.tool_result)
        if call.disposition is CallDisposition.EXECUTED and result.may_be_done and (rule is None or rule.mutating):
            yield call, rule, result


def listed(stays: Sequence[tuple[str, str]]) -> str:
    """Return changes in words, each with its reason in parentheses."""
    return "; ".join(f"{fixed.lowered(what).removesuffix('.')} ({why})" for what, why in stays)


def _undo_of(
    record: DecisionRecord,
    call: ToolInvocation,
    result: ToolResult,
    rule: ToolRule | None,
    policy: CompiledPolicy,
    undone_by: str | None,
    now: datetime,
) -> tuple[FunctionCall, UndoneCall]:
    """Return the call that undoes a call. Raises `NotUndoableError`."""
    declared = None if rule is None else rule.grant.undone_by
    if not result.success:
        raise NotUndoableError("it is not known whether it was done")
    if call.sequence in undoing_calls(record):
        raise NotUndoableError("it was an undo itself")
    if declared is None or rule is None:
        raise NotUndoableError("it cannot be undone")
    if undone_by is not None:
        raise NotUndoableError(undone_already(undone_by))
    if declared.tool not in policy.rules:
        raise NotUndoableError("what undoes it is not available now")
    # From the call, also if its outcome was settled later: its object may have been as it left it since then.
    until = call.invoked_at + timedelta(milliseconds=call.duration_ms) + declared.lifetime
    if now >= until:
        ended = time_in_words(until, record.header.context.said_in)
        raise NotUndoableError(f"the time in which it could be undone ended on {ended}")
    restored = _restored(record, call, declared, policy)
    before = {} if restored is None else restored.before
    arguments = filled(declared, call.parameters, result, before)
    said = _said_of(record, call)
    undone = UndoneCall(
        decision_id=record.header.decision_id, sequence=call.sequence, until=until, restored=restored, said=said
    )
    return FunctionCall(name=declared.tool, arguments=arguments), undone


def _restored(
    record: DecisionRecord, call: ToolInvocation, declared: UndoneBy, policy: CompiledPolicy
) -> RestoredObject | None:
    """Return what a call has replaced and left. Raises `NotUndoableError` if it is not known."""
    if declared.before is None:
        return None
    given, rules = read_arguments(declared, call.parameters), policy.rules
    changes = {one.sequence for one in record.invocations if one.tool_name not in rules or rules[one.tool_name].mutating}
    before, after = (None, None) if given is None else _reads_around(record, call, declared.before.tool, given, changes)
    if before is None or after is None:
        raise NotUndoableError("it is not known how it was before")
    read, (left, left_at) = before, after
    places = {path: place_of(path) for path in declared.restored}
    if any(place not in one.values for place in places.values() for one in (read, left)):
        raise NotUndoableError("it is not known how it was before")
    ended_at = call.invoked_at + timedelta(milliseconds=call.duration_ms)
    if left_at is None or left_at - ended_at > READ_WITHIN:
        raise NotUndoableError("it is not known how this change has left it")
    return RestoredObject(
        tool=read.tool,
        arguments=read.arguments,
        before={path: read.values[place] for path, place in places.items()},
        left={path: left.values[place] for path, place in places.items()},
        filled={parameter: where.path for parameter, where in declared.parameters if where.is_fact},
    )


def _reads_around(
    record: DecisionRecord, call: ToolInvocation, tool_name: str, given: Mapping[str, Any], changes: Collection[int]
) -> tuple[FactRead | None, tuple[FactRead, datetime | None] | None]:
    """Return the last read of an object before a call that has changed it, and the one right after it, with its time.

    What was read before another of the `changes`, the numbers of calls, does not say how the object was before this one.
    """
    before: FactRead | None = None
    after: tuple[FactRead, datetime | None] | None = None
    is_sent = False
    for entry in record.entries:
        if entry.kind is EntryKind.EXECUTE and entry.operation in changes:
            before = before if is_sent or entry.operation == call.sequence else None
            is_sent = is_sent or entry.operation == call.sequence
        if entry.kind is not EntryKind.READ or entry.result["tool"] != tool_name:
            continue
        read = FactRead.recorded(entry.result)
        # The runtime may have filled in more of them.
        if not given.items() <= read.arguments.items():
            continue
        if read.after == call.sequence:
            after = read, entry.at
        elif not is_sent:
            before = read
    return before, after


def undoing_calls(record: DecisionRecord) -> set[int]:
    """Return the numbers of the calls of a decision that undo others."""
    answered = record.answered
    return {number for number, one in enumerate(() if answered is None else answered.each, start=1) if one.undoes is not None}


def _said_of(record: DecisionRecord, call: ToolInvocation) -> Said | None:
    """Return a call as people have read it; None if its record does not have that."""
    known = () if record.decision is None else record.decision.calls_said
    return next((one.said for one in known if one.sequence == call.sequence), None)


def described(record: DecisionRecord, rule: ToolRule | None, call: ToolInvocation) -> str:
    """Return a call of a decision in words, as it was said when it was made if that is known."""
    if (said := _said_of(record, call)) is None and rule is not None:
        said = say(rule, call.parameters)
    text = "A change" if said is None else in_line(said)
    return one_line(text, _MAX_DESCRIPTION)

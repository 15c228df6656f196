"""The plan that does the changes of a finished decision again, and what of the decision no plan permits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import located_violation
from graph_agent.models.canonical import digest
from graph_agent.models.mandate import STANDING_MINUTES, Plan, PlanChoice, RecordedPlan, most_runs
from graph_agent.models.record import DecisionRecord, EntryKind, RecordEntry, ToolInvocation
from graph_agent.models.sources import BatchSources, CallSources, ReadCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.narrowing import narrowed_lines, narrows
from graph_agent.policy.recorded_plan import NotRepresentableError, Read, RecordedCall, RecordedLines, widest_plan
from graph_agent.record.audit_writer import read_calls
from graph_agent.reply import fixed
from graph_agent.reply.forms import ALL_FORMS
from graph_agent.turn.undo import changes_of, described, listed, undoing_calls

_NO_CHANGE = "This decision has made no change that could be done again."


@dataclass(frozen=True, slots=True)
class Repeatable:
    """The part of a decision that a plan permits again, and the changes that are left out."""

    decision_id: str
    plan: Plan | None
    """The widest plan; None if it has no line."""
    sources: tuple[CallSources, ...]
    """The sources of the values of each line."""
    stays: tuple[tuple[str, str], ...]
    """The other changes, in words, and for each the reason as a clause."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """The sentences about the changes that no line permits."""
        return tuple(fixed.not_in_plan(what, why) for what, why in self.stays)

    @property
    def problem(self) -> str | None:
        """The reason why no plan does anything of the decision again, as a sentence."""
        if self.plan is not None:
            return None
        return f"Nothing of this can be in a plan: {listed(self.stays)}." if self.stays else _NO_CHANGE

    @property
    def usual_minutes(self) -> int:
        """The time of the plan if its user chooses none; 0 without a plan."""
        return 0 if self.plan is None else STANDING_MINUTES if self.plan.job else self.plan.minutes

    def proposed(self, choice: PlanChoice) -> RecordedPlan:
        """Return the plan to ask about: the widest one, or what its user has chosen of it.

        Raises `ServiceError` NOT_REPEATABLE if there is none, and VALIDATION_ERROR for a choice that permits more.
        """
        if (plan := self.plan) is None:
            raise ServiceError(ServiceErrorCode.NOT_REPEATABLE, self.problem or _NO_CHANGE)
        try:
            minutes = choice.minutes or self.usual_minutes
            runs = choice.runs or (most_runs(minutes) if plan.job else 1)
            chosen = Plan(lines=choice.lines or plan.lines, minutes=minutes, job=plan.job, runs=runs)
        except ValidationError as exc:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"This is no plan: {located_violation(exc)}.") from None
        if (why := narrows(plan, chosen)) is not None:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, why)
        return RecordedPlan(
            decision_id=self.decision_id,
            plan=chosen,
            sources=tuple(self.sources[at] for at in narrowed_lines(plan, chosen) if at is not None),
            left_out=self.left_out,
        )


def repeatable(
    record: DecisionRecord,
    policy: CompiledPolicy,
    settled: Mapping[int, ToolResult],
    earlier: Sequence[ReadCall] = (),
    job: str = "",
) -> Repeatable:
    """Return what of a decision a plan permits again under the rules of `policy`, or a standing one for a job.

    `settled` has the results that were settled after the decision, by the number of the call, and `earlier` those that other
    decisions of its conversation have read: what is done after a yes was read for before it.
    """
    made, stays, context = RecordedLines(job), list[tuple[str, str]](), record.header.context
    sources, undoing = dict(_sources_of_calls(record)), undoing_calls(record)
    said = () if context.is_without_model else (context.message,)
    history = [one.content for one in context.message_history if one.role == "user" and one.origin is None]
    read = Read([*earlier, *read_calls(record.to_json())], (*said, *history))
    for call, rule, result in changes_of(record, policy, settled):
        try:
            if not result.success:
                raise NotRepresentableError("it is not known whether it was done")
            if call.sequence in undoing:
                raise NotRepresentableError("it was an undo")
            made.add(RecordedCall(call.tool_name, call.parameters, sources.get(call.sequence)), policy, read)
        except NotRepresentableError as exc:
            stays.append((described(record, rule, call), str(exc)))
    plan = widest_plan(made.lines, job) if made.lines else None
    return Repeatable(record.header.decision_id, plan, tuple(made.sources), tuple(stays))


def _sources_of_calls(record: DecisionRecord) -> Iterator[tuple[int, CallSources]]:
    """Yield the number of each call whose sources were recorded, with them.

    The calls of a decision are numbered in the order of its batches; each response of the model begins another one.
    """
    batch, before = _first_batch(record), 0
    closed = record.header.context.approval
    if closed is not None and closed.request.sources is not None:
        # A closing decision is judged by the sources of the call that was requested.
        yield 1, closed.request.sources
    for entry in record.entries:
        if entry.kind is EntryKind.MODEL:
            before, batch = before + len(batch), _batch_of(entry)
        if entry.kind is EntryKind.SOURCES and entry.request == digest(batch):
            found = BatchSources.model_validate(entry.result).calls
            numbered = {call.sequence: call for call in record.invocations}
            for number, ((name, _), sources) in enumerate(zip(batch, found, strict=True), before + 1):
                if _is_call_of(numbered.get(number), name):
                    yield number, sources


def _first_batch(record: DecisionRecord) -> Sequence[Sequence[object]]:
    """Return the calls that a decision had before it asked a model: those of a program, or the confirmed ones."""
    context, answered = record.header.context, record.answered
    if context.called:
        return [[call.name, call.arguments] for call in context.called]
    return [] if answered is None else [[one.tool_name, one.arguments] for one in answered.each]


def _batch_of(entry: RecordEntry) -> Sequence[Sequence[object]]:
    requested = entry.result.get("function_calls") or ()
    return [[one["name"], one["arguments"]] for one in requested if one["name"] not in ALL_FORMS]


def _is_call_of(call: ToolInvocation | None, name: object) -> bool:
    return call is not None and call.tool_name == name

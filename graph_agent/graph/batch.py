"""The batch of calls that EXECUTE_TOOLS judges together, with the facts and sources that conditions read about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from graph_agent.graph.fact_reads import FactReader
from graph_agent.graph.state import Turn, TurnCall, TurnRuntime
from graph_agent.models.facts import Facts, Selected, ShownFact
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.sources import BatchSources, CallSources, ReadCall
from graph_agent.policy.cedar.conditions import ConditionsDecision, Situation
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.guard import AuthorizedCall, CallDecision, JudgedCall, checked_arguments, judge_batch
from graph_agent.policy.origins import warn_of
from graph_agent.policy.past_call import PastCall
from graph_agent.reply.forms import REPLY_FORMS

if TYPE_CHECKING:
    # Only named in signatures: they import Cedar, which belongs to an extra.
    from graph_agent.policy.cedar.fact_values import CallFacts
    from graph_agent.policy.cedar.facts import Fact

WOULD_BE_DONE = "this is a dry run: it would be done"
WOULD_BE_ASKED = "this is a dry run: you would be asked first"
WOULD_WAIT = "this is a dry run: it would wait for the approval of another person"


@dataclass(frozen=True, slots=True)
class Batch:
    """The calls that are judged together, and the facts and sources that conditions read."""

    calls: Sequence[FunctionCall]
    facts: Facts | None
    sources: BatchSources | None
    reader: FactReader
    results: dict[int, CallFacts] = field(default_factory=dict)
    """The facts from results of the calls that were judged, by their place."""

    @classmethod
    async def of(cls, turn: Turn, runtime: TurnRuntime) -> Batch:
        """Return the calls that are to be judged now, with what conditions read about them."""
        policy, context = runtime.snapshot.policy, turn.context
        conditions = policy.conditions
        reads_facts = conditions is not None and conditions.gathers.reads_facts
        facts = await runtime.ports.facts(conditions) if conditions is not None and reads_facts else None
        calls, who = _calls_to_judge(turn), (context.user_id, turn.decision_id, context.roles)
        reader = FactReader(policy, runtime.ports, *who, facts, context.is_of_message, turn.fact_reads)
        return cls(calls, facts, await _sources(turn, runtime, calls), reader)

    async def judge(
        self, turn: Turn, runtime: TurnRuntime, position: int, reserved: ConditionsDecision | None = None
    ) -> list[JudgedCall]:
        """Judge the calls from `position` on, after the others have ended."""
        await self.read(turn, runtime, position)
        judged_calls = judge_batch(
            self.calls[position:],
            policy=runtime.snapshot.policy,
            user_id=turn.context.user_id,
            decision_id=turn.decision_id,
            past=past_calls(turn),
            max_calls_per_turn=runtime.snapshot.config.max_calls_per_turn,
            confirmed=turn.unused_yes,
            done_before=() if turn.confirmed is None else turn.confirmed.done_before,
            roles=turn.context.roles,
            facts=self.facts,
            sources=self.sources,
            of_message=turn.context.is_of_message,
            position=position,
            reserved=reserved,
            results=self.results.get(position),
            fact_reads=self.reader.made,
            approvals=_approvals(turn),
            yes=turn.has_yes,
            asks=turn.context.undoes is not None,
        )
        certain = list(_certain(judged_calls, runtime.snapshot.policy))
        # A confirmed call runs only if the one before it was done.
        runtime.ports.intend(certain if turn.unused_yes is None else certain[:1])
        return list(judged_calls)

    def situation(self, turn: Turn, position: int) -> Situation:
        """Return the circumstances of a call, after the calls before it have ended."""
        context = turn.context
        earlier, results = [*past_calls(turn), *self.reader.made], self.results.get(position)
        known = self.facts, earlier, context.is_of_message, self.sources_of(position), results
        return Situation(context.user_id, context.roles, *known, approvals=_approvals(turn))

    def sources_of(self, position: int) -> CallSources | None:
        """Return where the arguments of a call come from, if conditions read it."""
        return None if self.sources is None else self.sources.calls[position]

    def warnings(self, policy: CompiledPolicy, judged: JudgedCall, position: int) -> tuple[str, ...]:
        """Return the sentences about values of a call that are not the user's, if conditions read sources."""
        sources = self.sources_of(position)
        return () if sources is None else warn_of(policy, judged.tool_name, judged.arguments, sources)

    async def read(self, turn: Turn, runtime: TurnRuntime, position: int) -> None:
        """Read the facts of one call, unless it is refused or left out whatever they are."""
        call = self.calls[position]
        if not self.reader.needs(call.name):
            return
        past, policy = past_calls(turn), runtime.snapshot.policy
        is_left_out = turn.unused_yes is None and any(one.waits for one in past) and not policy.is_write(call.name)
        arguments = checked_arguments(
            call,
            position=position,
            sequence=len(past) + 1,
            policy=policy,
            user_id=turn.context.user_id,
            max_calls_per_turn=runtime.snapshot.config.max_calls_per_turn,
        )
        if arguments is not None and not is_left_out:
            newest, sources = partial(self._newest, turn), self.sources_of(position)
            self.results[position] = await self.reader.of_call(call.name, arguments, past, newest, sources)

    def _newest(self, turn: Turn, fact: Fact) -> Selected | None:
        """Return what a fact has from the newest result of its tools in this turn; None if there is none."""
        for call in reversed(turn.calls):
            if call.call.name in fact.tools and call.disposition is CallDisposition.EXECUTED and call.result.success:
                return self.reader.selected_last(fact, call.result)
        return None

    def facts_of(self, position: int) -> tuple[ShownFact, ...]:
        """Return the facts of a call as people are shown them."""
        return self.reader.shown(self.calls[position].name, self.results.get(position))

    def shown(self, position: int) -> dict[str, Any]:
        """Return what a question about a call shows of its facts, by path."""
        return {path: value for fact in self.facts_of(position) for path, value in fact.by_path.items()}


def _calls_to_judge(turn: Turn) -> list[FunctionCall]:
    """Return the calls to judge: exactly the confirmed ones, those of a decision without a model, or the model's tool calls."""
    if (confirmed := turn.unused_yes) is not None:
        return [FunctionCall(name=one.tool_name, arguments=one.arguments) for one in confirmed.each]
    if turn.context.called:
        return list(turn.context.called)
    assert turn.response is not None
    return [call for call in turn.response.function_calls or [] if call.name not in REPLY_FORMS]


async def _sources(turn: Turn, runtime: TurnRuntime, calls: Sequence[FunctionCall]) -> BatchSources | None:
    """Return where the arguments of the batch come from; None if no condition reads it, and no approver is shown it."""
    if (conditions := runtime.snapshot.policy.conditions) is None:
        return None
    tools = {call.name for call in calls}
    # A read for facts is judged with the sources of the call that it is made for.
    read_too = tools.union(*map(conditions.results.read_by, tools))
    if not conditions.gathers.reads_sources(read_too) and not any(map(conditions.approval_roles, tools)):
        return None
    if (closed := turn.context.approval) is not None and closed.request.sources is not None:
        # Of the call that was requested: the message of a closing decision is code's.
        return BatchSources(calls=[closed.request.sources])
    made = [call for call in turn.calls if call.disposition is CallDisposition.EXECUTED]
    read = [ReadCall(call.call.name, call.arguments, call.result) for call in made]
    return await runtime.ports.sources(calls, read, needed=conditions.reads_sources(read_too))


def past_calls(turn: Turn) -> list[PastCall]:
    shown = len(turn.confirmed_calls)
    return [_past_call(call, dry_run=turn.context.dry_run, confirmed=call.sequence <= shown) for call in turn.calls]


def _past_call(call: TurnCall, *, dry_run: bool, confirmed: bool) -> PastCall:
    # A dry run judges each call as if those before it had been made, and had succeeded.
    if call.disposition is CallDisposition.AWAITING or (dry_run and call.rule.startswith((WOULD_BE_ASKED, WOULD_WAIT))):
        return PastCall.waiting(call.sequence, call.call.name, call.arguments)
    supposed = dry_run and call.rule == WOULD_BE_DONE
    sent = supposed or call.disposition is CallDisposition.EXECUTED
    return PastCall(
        call.sequence,
        call.call.name,
        call.arguments,
        may_have_run=sent and (supposed or call.result.may_be_done),
        attempted=sent,
        succeeded=sent and (supposed or call.result.success),
        confirmed=confirmed,
    )


def _certain(judged_calls: Sequence[JudgedCall], policy: CompiledPolicy) -> Iterator[AuthorizedCall]:
    """Yield the permitted calls up to the first one that may still be refused: the commit of a call announces the next one."""
    for judged in judged_calls:
        call = judged.authorized
        if judged.decision is CallDecision.DEFERRED or (call is not None and policy.counts(call.tool_name)):
            return
        if call is not None:
            yield call


def _approvals(turn: Turn) -> dict[str, int]:
    """Return the number of people who have approved the call of this turn, by role."""
    return {} if turn.context.approval is None or turn.unused_yes is None else turn.context.approval.counts

"""The batch of calls that EXECUTE_TOOLS takes one by one: what they have in common, and what has become of those before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graph_agent.graph.card import AskedCall
from graph_agent.graph.fact_reads import FactReader
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.models.decision import ApprovalRequest
from graph_agent.models.facts import Selected
from graph_agent.models.llm import FunctionCall
from graph_agent.models.origin import Origin
from graph_agent.models.record import CallDisposition
from graph_agent.models.sources import BatchSources, ReadCall
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.call_in_hand import Before, CallInHand, Gate, GuardVerdict, Setting
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.facts import Fact
from graph_agent.policy.gates import DRY_RUN
from graph_agent.policy.guard import foresee, in_order
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.reasons import ReasonCode
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.forms import ALL_FORMS


@dataclass(slots=True)
class Batch:
    """The calls of a batch, and the state of the turn after those that were taken."""

    turn: Turn
    runtime: TurnRuntime
    setting: Setting
    calls: Sequence[FunctionCall]
    sources: BatchSources | None
    reader: FactReader
    asked: list[AskedCall] = field(default_factory=list)
    request: ApprovalRequest | None = None
    closed: ReasonCode | None = None
    """Why no further call is made."""
    anew: bool = False
    """True if the user is asked again about what was confirmed."""
    foreseen: GuardVerdict | None = None
    """The verdict on the call after the last one that was sent, as if that had been made."""

    @classmethod
    async def of(cls, turn: Turn, runtime: TurnRuntime, gates: tuple[Gate, ...]) -> Batch:
        """Return the calls that are to be judged now, with what conditions read about them."""
        policy, context = runtime.snapshot.policy, turn.context
        conditions, confirmed = policy.conditions, turn.unused_yes
        reads_facts = conditions is not None and conditions.gathers.reads_facts
        setting = Setting(
            policy=policy,
            user_id=context.user_id,
            decision_id=turn.decision_id,
            roles=context.roles,
            time_zone=context.said_in,
            facts=await runtime.ports.facts(conditions) if conditions is not None and reads_facts else None,
            of_message=context.is_of_message,
            max_calls_per_turn=runtime.snapshot.config.max_calls_per_turn,
            confirmed=confirmed,
            yes=turn.has_yes,
            approvals={} if context.approval is None or confirmed is None else context.approval.counts,
            closes=None if context.approval is None else context.approval.request,
            done_before=() if turn.went_on_from is None else turn.went_on_from.done_before,
            unknown_before=context.unknown,
            asks=context.undoes is not None,
            dry_run=context.dry_run,
            looks=context.look is not None,
            gates=in_order(gates, runtime.snapshot.gates),
        )
        calls = _calls_to_judge(turn)
        sources = await _sources(turn, runtime, calls)
        return cls(turn, runtime, setting, calls, sources, FactReader(setting, runtime.ports, turn.fact_reads))

    def hand(self, place: int) -> CallInHand:
        """Return the call at a place of the batch, after the calls before it have ended."""
        return self._hand(place, len(self.turn.calls) + 1, past_calls(self.turn))

    def _hand(self, place: int, sequence: int, past: Sequence[PastCall]) -> CallInHand:
        return CallInHand(
            call=self.calls[place],
            setting=self.setting,
            sequence=sequence,
            place=place,
            sources=None if self.sources is None else self.sources.calls[place],
            undoes=self.turn.undone_by_call(place),
            before=Before(past, self.reader.made, self.closed, self.anew),
        )

    def following(self, hand: CallInHand) -> AuthorizedCall | None:
        """Return the next call that is certainly made after the one in hand was sent: their commits are one."""
        self.foreseen = None
        # A confirmed call runs only if the one before it was done.
        if self.setting.confirmed is not None or self.setting.policy.counts(hand.name) or hand.evidence.draw is not None:
            return None
        conditions, place = self.setting.policy.conditions, hand.place + 1
        if place == len(self.calls) or self._is_read_for(self.calls[place].name):
            return None
        if conditions is not None and conditions.gathers.depends_on_calls(self.calls[place].name):
            return None
        past = (*hand.before.calls, PastCall(hand.sequence, hand.name, hand.arguments))
        ahead = self._hand(place, hand.sequence + 1, past)
        # Only the next one: what is announced must not be announced again if a call between turns out to be made.
        if (judged := foresee(ahead)) is None or judged.authorized is None:
            return None
        self.foreseen = judged
        return judged.authorized

    def _is_read_for(self, name: str) -> bool:
        """True if something is read right before a call of this tool, for its sentence."""
        rule = self.setting.policy.rules.get(name)
        return rule is not None and any(read.said for read in rule.grant.reads_for_sentence)

    def came_true(self, place: int) -> GuardVerdict | None:
        """Return the foreseen verdict on a call, unless something was read since that counts as a call."""
        if (known := self.foreseen) is None or known.hand.place != place:
            return None
        return known if known.hand.before.reads is self.reader.made else None

    def newest(self, fact: Fact) -> Selected | None:
        """Return what a fact has from the newest result of its tools in this turn; None if there is none."""
        for call in reversed(self.turn.calls):
            if call.call.name in fact.tools and call.disposition is CallDisposition.EXECUTED and call.result.success:
                return self.reader.selected_last(fact, call.result)
        return None


def _calls_to_judge(turn: Turn) -> list[FunctionCall]:
    """Return the calls to judge: exactly the confirmed ones, those of a decision without a model, or the model's tool calls."""
    if (confirmed := turn.unused_yes) is not None:
        return [FunctionCall(name=one.tool_name, arguments=one.arguments) for one in confirmed.each]
    if turn.context.called:
        return list(turn.context.called)
    assert turn.response is not None
    return [call for call in turn.response.function_calls or [] if call.name not in ALL_FORMS]


async def _sources(turn: Turn, runtime: TurnRuntime, calls: Sequence[FunctionCall]) -> BatchSources | None:
    """Return where the arguments of the batch come from; None if no condition reads it, and no approver is shown it."""
    tools, policy = {call.name for call in calls}, runtime.snapshot.policy
    in_plans = any(name in policy.rules and policy.rules[name].grant.in_plans is not None for name in tools)
    if (conditions := policy.conditions) is None:
        # A line of a plan may ask for a text of the model's own.
        return await runtime.ports.sources(calls, read_calls(turn, policy), needed=False) if in_plans else None
    # A read for facts is judged with the sources of the call that it is made for.
    read_too = tools.union(*map(conditions.results.read_by, tools))
    if not conditions.gathers.reads_sources(read_too) and not any(map(conditions.approval_roles, tools)) and not in_plans:
        return None
    if (closed := turn.context.approval) is not None and closed.request.sources is not None:
        # Of the call that was requested: the message of a closing decision is code's.
        return BatchSources(calls=[closed.request.sources])
    if (look := turn.context.look) is not None and look.sources is not None:
        return BatchSources(calls=[look.sources])
    return await runtime.ports.sources(calls, read_calls(turn, policy), needed=conditions.reads_sources(read_too))


def read_calls(turn: Turn, policy: CompiledPolicy) -> list[ReadCall]:
    """Return the calls that this turn has sent, with what the model has read of them."""
    made = [call for call in turn.calls if call.origin(policy) is not Origin.CODE]
    agreed = {call.sequence for call in turn.confirmed_calls} | {call.sequence for call in turn.calls if call.draw is not None}
    return [ReadCall(call.call.name, call.arguments, call.result, call.sequence in agreed) for call in made]


def past_calls(turn: Turn) -> tuple[PastCall, ...]:
    return tuple(map(past_call, turn.calls))


def past_call(call: TurnCall) -> PastCall:
    """Return a call as the conditions of a later one see it."""
    # A dry run judges each call as if those before it had been made, and had succeeded.
    supposed = call.gate == DRY_RUN
    if call.disposition is CallDisposition.AWAITING or (supposed and not call.is_because(ReasonCode.WOULD_BE_DONE)):
        return PastCall.waiting(call.sequence, call.call.name, call.arguments)
    sent = supposed or call.disposition is CallDisposition.EXECUTED
    return PastCall(
        call.sequence,
        call.call.name,
        call.arguments,
        may_have_run=sent and (supposed or call.result.may_be_done),
        attempted=sent,
        succeeded=sent and (supposed or call.result.success),
    )

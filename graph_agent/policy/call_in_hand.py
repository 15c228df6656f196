"""A call in hand: everything that is known about one call while it passes the gates, and the verdict on it.

    setting    who calls, by which rules, and what the user and others have agreed to: the same for all calls of a batch
    before     the calls that were taken before it
    evidence   what was read for its gates, by the driver of the walk
    found      what its gates have found, each by what it returned

Only the walk (`guard.py`) writes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from graph_agent.errors import ToolErrorCode
from graph_agent.models.approval import KnownRequests
from graph_agent.models.canonical import canonical_json, plain_numbers, without_nulls
from graph_agent.models.decision import ApprovalRequest, EarlierCall, PendingAction, PendingCall
from graph_agent.models.facts import FactRead, Facts, ShownFact
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import Covered, Draw
from graph_agent.models.record import CallDisposition
from graph_agent.models.sources import CallSources
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import UndoneCall
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.conditions import ConditionsVerdict, NeededApproval, Situation, Verdict
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.reasons import Reason, ReasonCode
from graph_agent.policy.sentence_reads import NOTHING_READ, ReadValues
from graph_agent.policy.tool_rule import ToolRule

ASKED_AT = "consent"
"""The name of the gate at which a question begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The user, the rules and the agreement by which the calls of a batch, and the reads for them, are judged."""

    policy: CompiledPolicy
    user_id: str
    decision_id: str = ""
    roles: tuple[str, ...] = ()
    time_zone: str = ""
    """The name of the time zone in which the user reads times; empty if it is not known. No rule reads it."""
    facts: Facts | None = None
    of_message: bool = True
    """Without it a call that is limited per message needs the user's yes."""
    max_calls_per_turn: int = 1
    confirmed: PendingAction | None = None
    """The action whose calls are this batch: it permits exactly these, each at its place, with their operation keys."""
    yes: bool = True
    """False if the calls of `confirmed` have approvals only, and not the user's yes."""
    approvals: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The number of people who have approved the call, by role."""
    closes: ApprovalRequest | None = None
    """The approval request that the decision closes: it asks the user nothing."""
    done_before: Sequence[EarlierCall] = ()
    """The changes before the question that was answered: none of them is made again."""
    unknown_before: Sequence[EarlierCall] = ()
    """The changes of earlier turns of which it is not known whether they were done."""
    asks: bool = False
    """True if every change needs the user's yes."""
    for_facts: bool = False
    """True for a read of the runtime: the conditions that name facts do not judge it."""
    dry_run: bool = False
    looks: bool = False
    """True for a dry run that shows people what the call would act on."""
    gates: tuple[Gate, ...] = ()
    """The table of gates; empty for the shipped one."""

    def of_reads(self) -> Setting:
        """Return the setting of the reads that are made for these calls, about which no question is asked."""
        return Setting(
            policy=self.policy,
            user_id=self.user_id,
            decision_id=self.decision_id,
            roles=self.roles,
            facts=self.facts,
            of_message=self.of_message,
            for_facts=True,
            gates=self.gates,
        )


class EvidenceKind(StrEnum):
    """A kind of knowledge that a gate needs, and that has to be read first. A walk without a driver, as a proof, has none."""

    FACTS = "facts"
    MANDATE = "mandate"
    OBJECT = "object"
    SENTENCE = "sentence"
    RESTORED = "restored"
    USES = "uses"
    CLAIM = "claim"
    ROOM = "room"
    CARD = "card"
    REQUESTS = "requests"


class Evidence(NamedTuple):
    """The evidence on a call: the fields of a kind have their defaults until it was read."""

    results: CallFacts | None = None
    """FACTS: the facts of the call from the results of tools."""
    facts_shown: tuple[ShownFact, ...] = ()
    """FACTS: the same as a question shows them."""
    covered: Covered | None = None
    """MANDATE: the lines of a mandate in force that the call fits; None if it fits none."""
    seen: ToolResult | None = None
    """OBJECT: the preview of the object of the call; None without one."""
    object_changed: bool = False
    """OBJECT: True if the call is not as it was shown to those who have confirmed it."""
    read_for_sentence: ReadValues = NOTHING_READ
    """OBJECT and SENTENCE: what its sentence says besides its arguments."""
    object_now: FactRead | None = None
    """RESTORED: what an undo would restore, as it is now."""
    restored_before: Mapping[str, Any] = MappingProxyType({})
    """RESTORED: what the undos before this one will have restored of the same object, by path."""
    uses: ConditionsVerdict | None = None
    """USES: the verdict of the conditions in the transaction that counts the call; None if the turn has ended."""
    draw: Draw | None = None
    """USES: the draw from one of these lines; None if none has room, or if the mandate is not in force any more."""
    undone_by: str | None = None
    """CLAIM: the decision that has undone the same change before, empty if none has; None if the turn has ended."""
    has_room: bool = True
    """ROOM: True if a question can show what the message has changed before."""
    fits_card: bool = True
    """CARD: True if one question can show the call with those that wait already."""
    requests: KnownRequests | None = None
    """REQUESTS: the earlier approval requests of the user."""


NO_EVIDENCE = Evidence()


class Before(NamedTuple):
    """The calls that were taken before one in its turn, and their consequences for it."""

    calls: Sequence[PastCall] = ()
    """The calls of the turn that were judged before."""
    reads: Sequence[PastCall] = ()
    """The reads that the runtime has made in this turn, which count as calls."""
    ended: ReasonCode | None = None
    """Why no further call of the batch is made."""
    anew: bool = False
    """True if the user is asked again about everything that was confirmed with this call."""


NOTHING_BEFORE = Before()


class Question(NamedTuple):
    """The question with which a call ends instead of its effect, unless a later gate stops it."""

    whom: CallDisposition
    """AWAITING for the user, WAITS for other people."""
    text: str = ""
    """Why the call waits, for the model, if a gate of an application asks."""
    names: str = ""
    """The names of the rules that require it."""
    facts: str = ""
    """These names, with the facts that the rules read: for the user."""
    object_changed: bool = False
    """True if it is asked because the object of the call is not as it was shown to those who said yes."""

    @property
    def because(self) -> str:
        """The rules that require it, as a clause for the user."""
        return self.facts or self.names

    @property
    def reason(self) -> Reason:
        """The reason for which the call is not made now."""
        if self.text:
            return Reason(ReasonCode.GIVEN, (self.text, self.because, self.names))
        code = ReasonCode.AWAITS_USER if self.whom is CallDisposition.AWAITING else ReasonCode.AWAITS_OTHERS
        return Reason(code, (self.names, self.facts))


_RUNS = ConditionsVerdict(Verdict.RUNS)


class Findings(NamedTuple):
    """The findings of the gates about a call."""

    arguments: Any
    """The arguments as they are sent: with the bound one, and without a `user_id` that no schema declares."""
    ruling: ConditionsVerdict = _RUNS
    """The verdict of the conditions; without any, the call runs."""
    question: Question | None = None
    """None for a call that runs."""
    needs: NeededApproval | None = None
    """The approval that the call waits for, now or after the yes."""
    permission: AuthorizedCall | None = None


@dataclass(slots=True, kw_only=True)
class CallInHand:
    """One call on its way through the gates."""

    call: FunctionCall
    setting: Setting
    sequence: int = 1
    place: int = 0
    """The place in the batch."""
    sources: CallSources | None = None
    undoes: UndoneCall | None = None
    before: Before = NOTHING_BEFORE

    # Written by the walk alone.
    gate: str = ""
    """The gate that the call is at."""
    evidence: Evidence = NO_EVIDENCE
    found: Findings = field(init=False)

    def __post_init__(self) -> None:
        self.found = Findings(self.call.arguments)

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def arguments(self) -> Any:
        return self.found.arguments

    @property
    def rule(self) -> ToolRule:
        """The rule of its tool, after the gate "listed"."""
        return self.setting.policy.rules[self.call.name]

    @property
    def waits(self) -> bool:
        """True if an earlier call of the batch waits for the user."""
        earlier = self.before.calls
        return bool(earlier) and not self.setting.for_facts and any(one.waits for one in earlier)

    @property
    def shown_before(self) -> PendingCall | None:
        """The call as it was shown to those who have confirmed it; None for any other."""
        confirmed = self.setting.confirmed
        return None if confirmed is None or self.place >= len(confirmed.each) else confirmed.each[self.place]

    @property
    def running(self) -> list[PastCall]:
        """The earlier calls and reads that may have run."""
        return [one for one in (*self.before.calls, *self.before.reads) if one.may_have_run]

    @property
    def operation_key(self) -> str | None:
        """The operation key of a call that the user has confirmed at this place of the batch; None for any other."""
        confirmed, shown = self.setting.confirmed, self.shown_before
        if confirmed is None or shown is None or not self.is_same_as(shown):
            return None
        return confirmed.operation_key(self.place + 1)

    @property
    def is_covered(self) -> bool:
        """True if a mandate has the user's yes to the call: once it was counted, only if it was drawn."""
        return self.evidence.covered is not None if self.evidence.uses is None else self.evidence.draw is not None

    @property
    def situation(self) -> Situation:
        """The circumstances that conditions read."""
        setting, earlier = self.setting, [*self.before.calls, *self.before.reads]
        known = setting.facts, earlier, setting.of_message, self.sources, self.evidence.results, setting.for_facts
        return Situation(setting.user_id, setting.roles, *known, approvals=setting.approvals)

    def is_same_as(self, known: PastCall | PendingCall | EarlierCall) -> bool:
        """True if a known call is the one of the same tool with equal arguments, however their numbers are written."""
        if known.tool_name != self.call.name:
            return False
        one, other = (canonical_json(plain_numbers(given)) for given in (known.arguments, self.arguments))
        return one == other

    def may_repeat(self, known: EarlierCall) -> bool:
        """True for the same call, also if one has a null where the other has nothing: to most servers that is no difference."""
        one, other = (canonical_json(plain_numbers(without_nulls(given))) for given in (known.arguments, self.arguments))
        return known.tool_name == self.call.name and one == other

    def asking(self, question: Question, needs: NeededApproval | None = None) -> Findings:
        """Return what was found, with a question. The gates that follow decide whether it can be asked."""
        return self.found._replace(question=question, needs=needs or self.found.needs, permission=None)

    def refused(
        self,
        why: ReasonCode | Reason | str,
        code: ToolErrorCode | None = ToolErrorCode.VALIDATION_ERROR,
        *,
        rule: str = "",
        gate: str = "",
    ) -> GuardVerdict:
        """Return the verdict that refuses the call.

        A gate of an application gives its own words: `why` for the model, and `rule`, a clause for the user. `gate` is the one
        that is recorded, if it is not the one that the call is at.
        """
        return GuardVerdict(self, CallDisposition.REFUSED, gate or self.gate, error_code=code, reason=Reason.of(why, rule))

    def skipped(self, why: ReasonCode | Reason | str, *, ends_batch: bool = False) -> GuardVerdict:
        return GuardVerdict(self, CallDisposition.SKIPPED, self.gate, reason=Reason.of(why), ends_batch=ends_batch)

    def concluded(self) -> GuardVerdict:
        """Return the verdict on a call that has passed all gates: it may run, or people are asked about it."""
        question, ends_batch = self.found.question, self.found.needs is not None
        if question is None:
            return GuardVerdict(self, CallDisposition.EXECUTED, "", self.found.permission, ends_batch=ends_batch)
        return GuardVerdict(self, question.whom, ASKED_AT, reason=question.reason, ends_batch=ends_batch)


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """The verdict of the guard on one call: what becomes of it, and the reason or the permission."""

    hand: CallInHand
    """The call, with all that is known about it."""
    disposition: CallDisposition
    """EXECUTED for a call that may be sent now."""
    gate: str
    """The gate that decided; empty for a call that may be sent."""
    authorized: AuthorizedCall | None = None
    repeats: int = 0
    """For REPEATED: the sequence of the identical earlier call."""
    error_code: ToolErrorCode | None = None
    reason: Reason | None = None
    """Why the call is not made now; None for one that may be sent, or is repeated."""
    ends_batch: bool = False
    """True if no later call of the batch is made: a call that needs an approval waits alone."""

    @property
    def because(self) -> str:
        """The rules that require the question with which the call ends, as a clause for the user."""
        return "" if self.hand.found.question is None else self.hand.found.question.because

    @property
    def sequence(self) -> int:
        return self.hand.sequence

    @property
    def tool_name(self) -> str:
        return self.hand.name

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments without `user_id`, which the runtime supplies; of a refused call as they were requested."""
        arguments: dict[str, Any] = self.hand.arguments
        return self.hand.call.arguments if self.disposition is CallDisposition.REFUSED else arguments

    @property
    def needs(self) -> NeededApproval | None:
        """The approval that the call waits for, now or after the yes."""
        return None if self.disposition is CallDisposition.REFUSED else self.hand.found.needs


class Gate(NamedTuple):
    """One row of the table of gates."""

    name: str
    """The name in the record, the log and the page."""
    check: Callable[[CallInHand], GuardVerdict | Findings | None]
    """Returns the verdict on a call that it stops, or what it has found about one that goes on, or None."""
    decides: str
    """The clause that holds for a call that passes, for the documentation."""
    reads: EvidenceKind | None = None
    when: Callable[[CallInHand], bool] | None = None
    """True for the calls for which the evidence is read. Other calls pass the gate; without a driver all of them do."""

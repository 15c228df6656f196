"""A call in hand: everything that is known about one call when it is judged, and the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import EarlierCall, PendingAction, PendingCall
from graph_agent.models.facts import FactRead, Facts, ShownFact
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition, ShadowVerdict
from graph_agent.models.sources import CallSources
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import UndoneCall
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.conditions import ConditionsVerdict, NeededApproval, Situation
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.tool_rule import ToolRule

INVALID_ARGUMENTS = "its details were not valid"


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """The verdict of the guard on one call: what becomes of it, and the reason or the permission."""

    sequence: int
    tool_name: str
    arguments: dict[str, Any]
    """The arguments without `user_id`, which the runtime supplies; of a refused call as they were requested."""
    disposition: CallDisposition
    """EXECUTED for a call that may be sent now."""
    gate: str
    """The gate that decided."""
    authorized: AuthorizedCall | None = None
    repeats: int = 0
    """For REPEATED: the sequence of the identical earlier call."""
    error_code: ToolErrorCode | None = None
    error: str | None = None
    rule: str = ""
    """For REFUSED: the rule that refuses the call, as a clause for the user. For AWAITING: the rules that require the yes."""
    needs: NeededApproval | None = None
    """The approval that the call waits for, now or after the yes. Such a call waits alone: no later one of its batch runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the calls of a batch, and the reads that are made for them, are judged by together."""

    policy: CompiledPolicy
    user_id: str
    decision_id: str = ""
    roles: tuple[str, ...] = ()
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
    closes: bool = False
    """True for a decision that closes an approval request: it asks nobody."""
    done_before: Sequence[EarlierCall] = ()
    """The changes before the question that was answered: none of them is made again."""
    asks: bool = False
    """True if every change needs the user's yes."""
    for_facts: bool = False
    """True for a read of the runtime: the conditions that name facts do not judge it."""
    dry_run: bool = False

    def of_reads(self) -> Setting:
        """Return the setting of the reads that are made for these calls: nobody is asked about one."""
        return Setting(
            policy=self.policy,
            user_id=self.user_id,
            decision_id=self.decision_id,
            roles=self.roles,
            facts=self.facts,
            of_message=self.of_message,
            for_facts=True,
        )


@dataclass(slots=True, kw_only=True)
class CallInHand:
    """One call on its way through the gates. Only what is under "found" changes on the way."""

    call: FunctionCall
    setting: Setting
    sequence: int = 1
    place: int = 0
    """The place in the batch."""
    past: Sequence[PastCall] = ()
    """The calls of the turn that were judged before."""
    fact_reads: Sequence[PastCall] = ()
    """The reads that the runtime has made in this turn, which count as calls."""
    sources: CallSources | None = None
    undoes: UndoneCall | None = None
    closed: str = ""
    """Why no further call of the batch is made."""
    anew: bool = False
    """True if the user is asked again about everything that was confirmed with this call."""

    # Evidence, which the driver of the walk provides.
    results: CallFacts | None = None
    facts_shown: tuple[ShownFact, ...] = ()
    seen: ToolResult | None = None
    """The preview of its object."""
    object_now: FactRead | None = None
    restored_before: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    reserved: ConditionsVerdict | None = None
    undone_by: str | None = None
    """The decision that has undone the same change before; empty if none has."""
    has_room: bool = True
    shadow: tuple[ShadowVerdict, ...] = ()

    # Found by the gates.
    gate: str = ""
    arguments: Any = None
    decided: ConditionsVerdict | None = None
    asks: CallDisposition | None = None
    """AWAITING or WAITS if people are to be asked."""
    reason: str = ""
    """The rules that require it, with the facts that they read."""
    names: str = ""
    """The names of these rules."""
    why: str | None = None
    """The reason for the model, with the names alone."""
    needs: NeededApproval | None = None
    changed: bool = False
    """True if its object is not as it was shown to those who said yes."""
    permission: AuthorizedCall | None = None

    def __post_init__(self) -> None:
        self.arguments = self.call.arguments

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def rule(self) -> ToolRule:
        """The rule of its tool, after the gate "listed"."""
        return self.setting.policy.rules[self.call.name]

    @property
    def waits(self) -> bool:
        """True if an earlier call of the batch waits for the user."""
        return not self.setting.for_facts and any(one.waits for one in self.past)

    @property
    def shown(self) -> dict[str, Any]:
        """What a question shows of its facts, by path."""
        return {path: value for fact in self.facts_shown for path, value in fact.by_path.items()}

    @property
    def running(self) -> list[PastCall]:
        return [one for one in (*self.past, *self.fact_reads) if one.may_have_run]

    @property
    def operation_key(self) -> str | None:
        """The operation key of a call that the user has confirmed at this place of the batch; None for any other."""
        confirmed = self.setting.confirmed
        if confirmed is None or self.place >= len(confirmed.each) or not self.is_same_as(confirmed.each[self.place]):
            return None
        return confirmed.operation_key(self.place + 1)

    @property
    def situation(self) -> Situation:
        """The circumstances that conditions read."""
        setting, earlier = self.setting, [*self.past, *self.fact_reads]
        known = setting.facts, earlier, setting.of_message, self.sources, self.results, setting.for_facts
        return Situation(setting.user_id, setting.roles, *known, approvals=setting.approvals)

    def is_same_as(self, known: PastCall | PendingCall | EarlierCall) -> bool:
        """True if a known call is the one of the same tool with exactly the same arguments."""
        same_tool = known.tool_name == self.call.name
        return same_tool and canonical_json(known.arguments) == canonical_json(self.arguments)

    def ask(self, whom: CallDisposition, why: str, names: str = "", reason: str = "") -> None:
        """Let the walk end with a question. The gates that follow decide whether it can be asked.

        `names` are those of the rules that require it; `reason` has the facts that they read too.
        """
        self.asks, self.names, self.reason, self.permission = whom, names, reason or names, None
        self.why = f"{why} ({names})" if names else why

    def refused(
        self,
        text: str | None,
        code: ToolErrorCode | None = ToolErrorCode.VALIDATION_ERROR,
        *,
        rule: str = INVALID_ARGUMENTS,
    ) -> GuardVerdict:
        refused = CallDisposition.REFUSED
        return GuardVerdict(
            self.sequence, self.name, self.call.arguments, refused, self.gate, error_code=code, error=text, rule=rule
        )

    def skipped(self, text: str) -> GuardVerdict:
        return GuardVerdict(
            self.sequence, self.name, self.arguments, CallDisposition.SKIPPED, self.gate, error=text, needs=self.needs
        )

    def concluded(self) -> GuardVerdict:
        """Return the verdict on a call that has passed all gates: it may run, or people are asked about it."""
        disposition = self.asks or CallDisposition.EXECUTED
        return GuardVerdict(
            self.sequence,
            self.name,
            self.arguments,
            disposition,
            "consent" if self.asks else "",
            self.permission,
            error=self.why,
            rule=self.reason,
            needs=self.needs,
        )

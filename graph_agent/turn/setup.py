"""The ports and options of an engine, and the setup that all its turns share: the graph, and the policy of the next turn."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.errors import ConfigurationError, RulesReplacedError
from graph_agent.graph.build import CompiledGraph, gates_of, shipped_graph
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext
from graph_agent.models.record import NO_MODEL, RecordHeader
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.ports import ApprovalRequests, AskedConfirmations, Clock, IdSource, PlanSolver
from graph_agent.record.audit_writer import AuditWriter, MemoryAuditWriter, MemoryConfirmations
from graph_agent.tools.plain_executor import PlainExecutor
from graph_agent.tools.served_policy import ServedPolicy
from graph_agent.turn.external import ExternalPorts
from graph_agent.turn.handle import TurnHandle
from graph_agent.turn.hooks import TurnHook
from graph_agent.turn.rules_in_force import RulesInForce

_CLOSED_TOGETHER = 64
"""The number of interrupted turns that are closed at the same time, and committed together.

To close one takes milliseconds of the event loop, so that this many end well within the seconds that each has.
"""


@dataclass(frozen=True, slots=True)
class EnginePorts:
    """The ports of turns besides the model and the tools. The defaults keep everything in memory."""

    audit: AuditWriter = field(default_factory=MemoryAuditWriter)
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)
    signer: Signer = field(default_factory=lambda: Signer(secrets.token_bytes(32)))
    """Signs confirmations; by default with a key of one engine only."""
    confirmations: AskedConfirmations = field(default_factory=MemoryConfirmations)
    approvals: ApprovalRequests | None = None
    """The store of approval requests. Without one no policy that counts approvals can be used."""
    permitted: PlanSolver | None = None
    """Solves what a plan permits at most, before its user is asked. Without one its card has the bounds of the model."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Choices for all turns of an engine."""

    config: AgentEngineConfig | None = None
    """Overrides `max_iterations`."""
    system_prompt: str | None = None
    """Replaces the constitution as the text that the model reads, never as the policy."""
    call_seconds: float | None = None
    """The time limit of one tool call. None: see `call_seconds_of`."""
    allow_missing_tools: bool = False
    """Leaves out a listed tool that the server does not serve, instead of refusing to run."""
    conditions: ConditionsFile | None = None
    """The conditions of `policy.cedar`, which restrict what the constitution permits."""
    graph: CompiledGraph | None = None
    """A compiled graph; engines may share one, since it keeps no state. By default that of the shipped topology."""
    hooks: Sequence[Callable[[], TurnHook]] = ()
    """Functions that make one hook for each turn."""
    rule_set: RuleSet | None = None
    """The rules of the installation, which each decision of the engine puts in force. None for an engine of your own."""
    rules_in_force: RulesInForce | None = None
    """The source of the rules of the installation, if they may be replaced while the engine runs."""
    own_config: bool = True
    """True if the limits of `config` are those of the caller. Otherwise they are a part of the rules."""


@dataclass(eq=False, repr=False)
class TurnSetup:
    """Everything with which the turns of one engine are run: the part of the engine that a run knows."""

    ports: EnginePorts
    external: ExternalPorts
    served: ServedPolicy
    config: AgentEngineConfig
    prompt: str
    model: str
    given_graph: CompiledGraph | None
    rule_set: RuleSet | None
    """The rules that are in force from the next decision on, which its record names."""
    rules_in_force: RulesInForce | None = None
    """The source of the rules of an installation, which may be replaced; None if they stay."""
    own_config: bool = True
    """True if the limits are those of the caller, and not of the rules."""
    own_prompt: str | None = None
    """The prompt of the caller; None for that of the constitution."""
    runs: dict[TurnHandle[object], None] = field(default_factory=dict)
    """The turns that run in this process, in the order of their start."""
    closing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CLOSED_TOGETHER))
    _snapshot: PolicySnapshot | None = None

    @property
    def graph(self) -> CompiledGraph:
        """The compiled graph."""
        return self.given_graph or shipped_graph()

    async def prepare(self) -> PolicySnapshot:
        """Join the constitution with the tools that the server serves now. The result is kept until these change.

        Raises `ConfigurationError` if a server that answers has never served a listed tool, or not in a usable form, and
        `ServiceError` if this process cannot use the rules in force.
        """
        await self._renew_rules()
        while True:
            served = self.served
            policy = await served.current()
            if served is self.served:
                break  # Otherwise other rules were adopted meanwhile.
        if self._snapshot is None or self._snapshot.policy is not policy:
            counts, tokens = self.ports.audit.counts_uses, self.config.tokens
            if tokens is not None and tokens.day is not None and not counts:
                raise ConfigurationError("a limit of tokens per day needs a database, which counts them")
            conditions = None if policy.conditions is None else policy.conditions.gathers
            if conditions is not None and not counts and (unknown := conditions.unknown_fact(None)):
                text = f"this installation does not count uses, but the policy {conditions.file.name} reads `{unknown}`"
                raise ConfigurationError(text)
            reads_sources = conditions is not None and conditions.reads_sources(policy.rules)
            if reads_sources and not self.ports.audit.keeps_results:
                text = (
                    "this installation does not keep what tools have returned, which conditions read as `source` or `tainted`"
                )
                raise ConfigurationError(text)
            if policy.conditions is not None and policy.conditions.reads.has("approvals") and self.ports.approvals is None:
                text = f"this installation keeps no requests, but the policy {policy.conditions.file.name} reads `approvals`"
                raise ConfigurationError(text)
            names = tuple(gate.name for gate in gates_of(self.graph))
            snapshot = PolicySnapshot(policy, self.config, self.prompt, names, self.rule_set)
            if snapshot.offers_plans and not self.ports.audit.keeps_mandates:
                # A yes that is not stored would cover no call: each would be asked about again.
                snapshot = replace(snapshot, config=self.config.replace(plans=False))
            self._snapshot = snapshot
        return self._snapshot

    async def _renew_rules(self) -> None:
        """Adopt the rules in force if they were replaced. Raises `ServiceError`."""
        if self.rules_in_force is None:
            return
        rules = await self.rules_in_force.renew()
        if self.rule_set is not None and rules.rule_set.digest == self.rule_set.digest:
            return
        if isinstance(self.served.tools, PlainExecutor):
            # It has read from the constitution before which of its tools change something.
            raise RulesReplacedError
        self.served = replace(self.served, constitution=rules.constitution, conditions=rules.conditions)
        self.config = self.config if self.own_config else rules.config
        self.prompt = self.own_prompt or rules.constitution.prompt
        self.rule_set, self._snapshot = rules.rule_set, None

    async def snapshot_of(self, header: RecordHeader) -> PolicySnapshot:
        """Return the policy snapshot that a record names: the current one, or one that is rebuilt from the log."""
        current = await self.prepare()
        if current.digests == header.digests:
            return current
        return PolicySnapshot.from_texts(await self.ports.audit.texts(list(header.digests.values())), header.digests)

    def header(
        self,
        context: DecisionContext,
        snapshot: PolicySnapshot,
        decision_id: str | None = None,
        *,
        at: datetime | None = None,
    ) -> RecordHeader:
        """Return the header of a record of `context` under `snapshot`, that starts `at` this time, by default now."""
        model = NO_MODEL if context.called or context.proposed is not None else self.model
        start = {"context": context, "started_at": at or self.ports.clock.now(), "model": model}
        rules = None if snapshot.rule_set is None else snapshot.rule_set.digest
        named = {"decision_id": decision_id or self.ports.ids.new(), "rules": rules}
        return RecordHeader.model_validate({**named, **start, **snapshot.digests})

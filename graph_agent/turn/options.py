"""The optional parameters of an engine, in two groups: the ports of its turns, and the choices about them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.graph.build import CompiledGraph
from graph_agent.models.config import AgentEngineConfig
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.ports import Clock, Confirmations, IdSource
from graph_agent.record.audit_writer import AuditWriter
from graph_agent.record.memory import MemoryAuditWriter, MemoryConfirmations
from graph_agent.turn.hooks import TurnHook


@dataclass(frozen=True, slots=True)
class EnginePorts:
    """The ports of turns besides the model and the tools. The defaults keep everything in memory."""

    audit: AuditWriter = field(default_factory=MemoryAuditWriter)
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)
    signer: Signer = field(default_factory=lambda: Signer(secrets.token_bytes(32)))
    """Signs confirmations; by default with a key of one engine only."""
    confirmations: Confirmations = field(default_factory=MemoryConfirmations)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Choices for all turns of an engine."""

    config: AgentEngineConfig | None = None
    """Overrides `max_iterations`."""
    system_prompt: str | None = None
    """Replaces the constitution as the text that the model reads, never as the policy."""
    call_seconds: float = 10.0
    """The time limit of one tool call."""
    allow_missing_tools: bool = False
    """Leaves out a listed tool that the server does not serve, instead of refusing to run."""
    conditions: ConditionsFile | None = None
    """The rules of `policy.cedar`, which restrict what the constitution permits."""
    graph: CompiledGraph | None = None
    """A compiled graph; engines may share one, since it keeps no state. By default that of the shipped topology."""
    hooks: Sequence[Callable[[], TurnHook]] = ()
    """Functions that make one hook for each turn."""

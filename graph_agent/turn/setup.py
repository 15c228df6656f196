"""The setup that all turns of an engine share: the graph, the ports, and the policy under which a turn starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import cached_property

from graph_agent.errors import ConfigurationError
from graph_agent.graph.build import CompiledGraph, build_graph
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.stepping import Step, walk
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext
from graph_agent.models.record import RecordHeader
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.record.audit_writer import UseCounter
from graph_agent.tools.served_policy import ServedPolicy
from graph_agent.turn.external import ExternalPorts
from graph_agent.turn.handle import TurnHandle
from graph_agent.turn.options import EnginePorts
from graph_agent.turn.recorder import Recorder

NO_MODEL = "none"
"""The name in the record of a decision without a model."""

_CLOSED_TOGETHER = 64
"""The number of interrupted turns that are closed at the same time, and committed together.

To close one takes milliseconds of the event loop, so that this many end well within the seconds that each has.
"""


@dataclass(eq=False)
class TurnSetup:
    """Everything with which the turns of one engine are run."""

    ports: EnginePorts
    external: ExternalPorts
    served: ServedPolicy
    config: AgentEngineConfig
    prompt: str
    model: str
    given_graph: CompiledGraph | None
    running: dict[TurnHandle[object], None] = field(default_factory=dict)
    """The turns that run in this process, in the order of their start."""
    closing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CLOSED_TOGETHER))
    _snapshot: PolicySnapshot | None = None

    @cached_property
    def graph(self) -> CompiledGraph:
        """The compiled graph, compiled once."""
        return self.given_graph or build_graph()

    async def prepare(self) -> PolicySnapshot:
        """Join the constitution with the tools that the server serves now. The result is kept until these change.

        Raises `ConfigurationError` if a server that answers has never served a listed tool, or not in a usable form.
        """
        policy = await self.served.current()
        if self._snapshot is None or self._snapshot.policy is not policy:
            counts, tokens = isinstance(self.ports.audit, UseCounter), self.config.tokens
            if tokens is not None and tokens.day is not None and not counts:
                raise ConfigurationError("a limit of tokens per day needs a log database, which counts them")
            if policy.conditions is not None and not counts and (unknown := policy.conditions.unknown_fact(None)):
                text = f"this installation does not count uses, but the policy {policy.conditions.file.name} reads `{unknown}`"
                raise ConfigurationError(text)
            self._snapshot = PolicySnapshot(policy, self.config, self.prompt)
        return self._snapshot

    async def snapshot_of(self, header: RecordHeader) -> PolicySnapshot:
        """Return the policy snapshot that a record names: the current one, or one that is rebuilt from the log."""
        current = await self.prepare()
        if current.digests == header.digests:
            return current
        return PolicySnapshot.from_texts(await self.ports.audit.texts(list(header.digests.values())), header.digests)

    def header(self, context: DecisionContext, snapshot: PolicySnapshot, decision_id: str) -> RecordHeader:
        """Return the header of a record of `context` that starts now, under `snapshot`."""
        model = NO_MODEL if context.called else self.model
        start = {"decision_id": decision_id, "context": context, "started_at": self.ports.clock.now(), "model": model}
        return RecordHeader.model_validate({**start, **snapshot.digests})

    def walk(self, recorder: Recorder) -> AsyncGenerator[Step]:
        """Run the turn of `recorder` through the graph."""
        first = Turn(context=recorder.header.context, decision_id=recorder.header.decision_id)
        return walk(self.graph, first, TurnRuntime(recorder, recorder.snapshot), recorder.end_state)

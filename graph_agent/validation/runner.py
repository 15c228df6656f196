"""Playing a case: its conversation on the real engine, for a user who is new to the tool server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Protocol

from pydantic import ValidationError

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.graph.build import build_graph
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.base import Frozen
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext, Message, OutcomeCategory, PendingAction
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.ports import Clock, IdSource, LLMAdapter, ToolServer
from graph_agent.record.audit_writer import AuditWriter
from graph_agent.record.memory import MemoryAuditWriter
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.options import EngineOptions, EnginePorts
from graph_agent.validation.fixtures import Fixture, FixtureTask


class PlayedTurn(Frozen):
    """The result of one turn: its record, or the outcome of a message that was refused before a turn began."""

    record: DecisionRecord | None
    refused: OutcomeCategory | None = None
    lookups: frozenset[str] = frozenset()
    """The called tools that are read-only."""


class PlayedFixture(Frozen):
    """The results of all turns of a case, and the task list at its end, newest first."""

    turns: list[PlayedTurn]
    tasks: list[FixtureTask]


class _WaitingClock:
    """A clock, ahead by the time that the user of the case has waited."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waited = timedelta()

    def now(self) -> datetime:
        return self._clock.now() + self.waited

    def monotonic(self) -> float:
        return self._clock.monotonic()


class TaskList(Protocol):
    """The tasks that a case may start with, and that its expectations may name: pairs of description and status."""

    async def create(self, user_id: str, tasks: Iterable[tuple[str, str]]) -> list[str]:
        """Create `tasks` in their order and return their ids. Raises `ConfigurationError`."""
        ...

    async def listed(self, user_id: str) -> list[tuple[str, str]]:
        """Return the tasks, newest first."""
        ...


class EngineRunner:
    """Plays cases on the real engine. Every case gets a new user id, and so an empty task list."""

    def __init__(
        self,
        adapter: LLMAdapter,
        tools: ToolServer,
        constitution: str,
        tasks: TaskList,
        *,
        config: AgentEngineConfig | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        conditions: ConditionsFile | None = None,
        audit: AuditWriter | None = None,
    ) -> None:
        self._conditions = conditions
        self._audit = audit
        self._adapter = adapter
        self._tools = tools
        self._constitution = constitution
        self._tasks = tasks
        self._config = config
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._graph = build_graph()

    async def play(self, fixture: Fixture) -> PlayedFixture:
        """Play all turns of `fixture`. Raises `GraphAgentError` if the case cannot be played at all."""
        user_id = f"fixture-{self._ids.new()}"
        # The newest task is the first one of a case.
        created = await self._tasks.create(user_id, [(task.description, task.status) for task in reversed(fixture.tasks)])
        adapter = self._adapter if fixture.script is None else _script_adapter(fixture.script, created[::-1])
        clock = _WaitingClock(self._clock)
        audit = MemoryAuditWriter() if self._audit is None else self._audit
        ports, options = EnginePorts(audit, clock), EngineOptions(self._config, graph=self._graph, conditions=self._conditions)
        engine = LLMAgentEngine(adapter, self._tools, self._constitution, ports=ports, options=options)
        conversation_id = self._ids.new()
        history: list[Message] = []
        pending: PendingAction | None = None
        turns = []
        for turn in fixture.turns:
            clock.waited += timedelta(minutes=turn.minutes_later)
            try:
                context = DecisionContext(
                    user_id=user_id,
                    message=turn.input,
                    conversation_id=conversation_id,
                    message_history=history,
                    pending_confirmation=pending,
                )
            except ValidationError:
                turns.append(PlayedTurn(record=None, refused=OutcomeCategory.USER_INPUT))
                continue
            record = (await engine.run(context)).record
            decision = record.decision
            pending = decision.pending_action
            history = [
                *history,
                Message(role="user", content=turn.input, timestamp=record.header.started_at),
                Message(
                    role="assistant",
                    content=decision.reply,
                    timestamp=record.ended_at,
                    decision_type=decision.decision_type,
                ),
            ]
            called = {invocation.tool_name for invocation in record.invocations}
            rules = (await engine.prepare()).policy.rules
            lookups = frozenset(name for name in called if name in rules and not rules[name].mutating)
            turns.append(PlayedTurn(record=record, lookups=lookups))
        return PlayedFixture(turns=turns, tasks=await self._listed_tasks(user_id))

    async def _listed_tasks(self, user_id: str) -> list[FixtureTask]:
        listed = await self._tasks.listed(user_id)
        return [FixtureTask.model_validate({"description": text, "status": status}) for text, status in listed]


def _script_adapter(script: list[dict[str, Any]], task_ids: list[str]) -> ScriptedAdapter:
    """Return an adapter that plays `script`, with the ids of the case's tasks in place of `$task1`, `$task2`, ..."""
    text = json.dumps(script)
    # From the highest number down, because "$task1" is also the start of "$task10".
    for number, task_id in reversed(list(enumerate(task_ids, start=1))):
        text = text.replace(f"$task{number}", task_id)
    return ScriptedAdapter.from_values(json.loads(text), "the fixture's script")

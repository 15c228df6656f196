"""Playing a case and judging it: its conversation on the real engine, for a new user.

A case that has tools plays them. Any other runs on the tools of the runner: a task server of its own, on an empty database.
Only a runner of `RealServers` reaches the configured servers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from pydantic import Field, ValidationError

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.errors import ConfigurationError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.base import Frozen
from graph_agent.models.canonical import canonical_json
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext, Message, OutcomeCategory, PendingAction
from graph_agent.models.facts import NOT_GIVEN, FactRead
from graph_agent.models.record import DecisionRecord, EntryKind
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.ports import Clock, LLMAdapter, ToolServer
from graph_agent.record.audit_writer import AuditWriter, MemoryAuditWriter, NoApprovalRequests
from graph_agent.tools.played import PlayedResult, PlayedTools
from graph_agent.tools.real_servers import RealServers
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EngineOptions, EnginePorts
from graph_agent.validation.fixtures import USER, Fixture, FixtureTask, FixtureTurn

Played = TypeVar("Played", PlayedResult, FactRead)

_NO_TOOLS = "a case about other tools than the shipped ones has them as `tools` and `results`, or runs with --real-tools"


class PlayedTurn(Frozen):
    """The result of one turn: its record, or None for a message that was refused as invalid before a turn began."""

    record: DecisionRecord | None
    lookups: frozenset[str] = frozenset()
    """The called tools that are read-only."""
    problems: list[str] = Field(default_factory=list)
    """A sentence for each call that the tools of the case could not answer."""

    @property
    def outcome(self) -> str:
        return str(OutcomeCategory.USER_INPUT if self.record is None else self.record.decision.outcome_category)


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


@dataclass(slots=True)
class EngineRunner:
    """Plays cases on the real engine. Every case gets a new user id, and so an empty task list."""

    adapter: LLMAdapter
    tools: ToolServer
    """The tools of cases that play none: those of a temporary task server, whose tasks are `tasks`; or `RealServers`."""
    constitution: str
    tasks: TaskList | None = None
    _: KW_ONLY
    config: AgentEngineConfig | None = None
    clock: Clock = field(default_factory=SystemClock)
    conditions: ConditionsFile | None = None
    audit: AuditWriter | None = None
    """The writer of the decisions; None for a new log in memory for each case."""

    async def play(self, fixture: Fixture) -> PlayedFixture:
        """Play all turns of `fixture`. Raises `GraphAgentError` if the case cannot be played at all."""
        ids = RandomIds()
        user_id = f"fixture-{ids.new()}"
        tools = self.tools
        if isinstance(tools, RealServers):
            self._require_real(fixture)
            await tools.empty()
        elif fixture.tools is not None:
            tools = PlayedTools(fixture.tools)
        elif self.tasks is None:
            raise ConfigurationError(_NO_TOOLS)
        created: list[str] = []
        if self.tasks is not None and tools is self.tools:
            # The newest task is the first one of a case.
            created = await self.tasks.create(user_id, [(task.description, task.status) for task in reversed(fixture.tasks)])
        adapter = self.adapter if fixture.script is None else _script_adapter(fixture.script, created[::-1])
        clock = _WaitingClock(self.clock)
        audit = MemoryAuditWriter() if self.audit is None else self.audit
        # A case has the tools of its turns. Another constitution may list more, which the model then does not see.
        is_played = isinstance(tools, PlayedTools)
        options = EngineOptions(self.config, conditions=self.conditions, allow_missing_tools=is_played)
        ports = EnginePorts(audit, clock, approvals=NoApprovalRequests())
        engine = LLMAgentEngine(adapter, tools, self.constitution, ports=ports, options=options)
        try:
            await engine.prepare()
        except ConfigurationError as exc:
            hint = "" if tools is not self.tools or self.tasks is None else f" ({_NO_TOOLS})"
            raise ConfigurationError(f"{exc}{hint}") from exc
        conversation_id = ids.new()
        history: list[Message] = []
        pending: PendingAction | None = None
        turns = []
        for turn in fixture.turns:
            clock.waited += timedelta(minutes=turn.minutes_later)
            if isinstance(tools, PlayedTools):
                tools.play((_of_user(one, user_id) for one in turn.results), (_of_user(one, user_id) for one in turn.reads))
            try:
                context = DecisionContext(
                    user_id=user_id,
                    message=turn.input,
                    conversation_id=conversation_id,
                    message_history=history,
                    pending_confirmation=pending,
                )
            except ValidationError:
                turns.append(PlayedTurn(record=None))
                continue
            record = (await engine.run(context)).record
            decision = record.decision
            pending = decision.pending_action
            history = [
                *history,
                Message(role="user", content=turn.input, timestamp=record.header.started_at),
                Message(
                    role="assistant", content=decision.reply, timestamp=record.ended_at, decision_type=decision.decision_type
                ),
            ]
            called = {invocation.tool_name for invocation in record.invocations}
            rules = (await engine.prepare()).policy.rules
            lookups = frozenset(name for name in called if name in rules and not rules[name].mutating)
            problems: list[str] = []
            if isinstance(tools, PlayedTools | RealServers):
                # A read that fails is sent again.
                problems = list(dict.fromkeys(tools.problems))
                tools.problems.clear()
                problems += dict.fromkeys(_not_given(record))
            turns.append(PlayedTurn(record=record, lookups=lookups, problems=problems))
        listed = [] if self.tasks is None or tools is not self.tools else await self.tasks.listed(user_id)
        tasks = [FixtureTask.model_validate({"description": text, "status": status}) for text, status in listed]
        return PlayedFixture(turns=turns, tasks=tasks)

    def _require_real(self, fixture: Fixture) -> None:
        """Raise `ConfigurationError` if a case cannot run on real tools."""
        if self.audit is None:
            raise ConfigurationError("a case on real tools is recorded: it needs a record")
        if fixture.names_tasks:
            raise ConfigurationError("the case names tasks, which only the shipped task server of a case has")
        if any(turn.minutes_later for turn in fixture.turns):
            raise ConfigurationError("the case moves the clock (minutes_later), which the record of real calls does not permit")


def _of_user(played: Played, user_id: str) -> Played:
    """Return a result or a read with the id of the user where its arguments have `USER`."""
    return played.replace(arguments={name: user_id if value == USER else value for name, value in played.arguments.items()})


def _not_given(record: DecisionRecord) -> Iterator[str]:
    """Yield a sentence for each fact that a read of the case does not have: a refusal for this reason proves nothing."""
    for entry in record.entries:
        if entry.kind is EntryKind.READ:
            read = FactRead.model_validate(entry.result)
            for name, why in read.failed.items():
                if why == NOT_GIVEN:
                    yield f"the case has no value for the fact '{name}' of {read.tool} {canonical_json(read.arguments)}"


def _script_adapter(script: list[dict[str, Any]], task_ids: list[str]) -> ScriptedAdapter:
    """Return an adapter that plays `script`, with the ids of the case's tasks in place of `$task1`, `$task2`, ..."""
    text = json.dumps(script)
    # From the highest number down, because "$task1" is also the start of "$task10".
    for number, task_id in reversed(list(enumerate(task_ids, start=1))):
        text = text.replace(f"$task{number}", task_id)
    return ScriptedAdapter.from_values(json.loads(text), "the fixture's script")


def judge(fixture: Fixture, played: PlayedFixture) -> list[str]:
    """Return a sentence for each expectation of `fixture` that is not met; an empty list if it passes."""
    failures = []
    for number, (expected, turn) in enumerate(zip(fixture.turns, played.turns, strict=True), start=1):
        where = f"turn {number}: " if len(fixture.turns) > 1 else ""
        failures += [f"{where}{failure}" for failure in (*turn.problems, *_unmet_expectations(expected, turn))]
    if fixture.expected_tasks is not None and fixture.expected_tasks != played.tasks:
        failures.append(f"expected the tasks {_task_list(fixture.expected_tasks)}, got {_task_list(played.tasks)}")
    return failures


def _unmet_expectations(expected: FixtureTurn, turn: PlayedTurn) -> list[str]:
    decision = None if turn.record is None else turn.record.decision
    called = [] if turn.record is None else [invocation.tool_name for invocation in turn.record.invocations]
    intent = None if decision is None or decision.intent is None else decision.intent.intent_type
    kind = None if decision is None else decision.decision_type
    reply = None if decision is None else decision.reply
    folded = (reply or "").casefold()
    contained, lacking = ([text in folded for text in _folded(t)] for t in (expected.reply_contains, expected.reply_lacks))
    in_order = _in_order(expected.reply_lines or [], (reply or "").splitlines())
    # One row for each field of FixtureTurn: label, actual value, and whether the expectation is met.
    checks: dict[str, tuple[str, Any, bool]] = {
        "expected_intent": ("intent", intent, expected.expected_intent == intent),
        "expected_tool": ("tool", called or None, _tool_fits(expected.expected_tool, called, turn.lookups)),
        "expected_outcome": ("outcome", turn.outcome, turn.outcome.startswith(expected.expected_outcome or "")),
        "expected_decision": ("decision", kind, decision is not None and kind == expected.expected_decision),
        "reply_contains": ("a reply with", reply, all(contained)),
        "reply_equals": ("the reply", reply, expected.reply_equals == reply),
        "reply_lacks": ("a reply without", reply, reply is not None and not any(lacking)),
        "reply_lines": ("the lines in this order", reply, in_order),
    }
    return [
        f"expected {label} {_text(getattr(expected, name))}, got {_text(actual)}"
        for name, (label, actual, is_met) in checks.items()
        if name in expected.expectations and not is_met
    ]


def _folded(texts: str | list[str] | None) -> list[str]:
    return [text.casefold() for text in ([texts] if isinstance(texts, str) else texts or [])]


def _in_order(wanted: list[str], lines: list[str]) -> bool:
    """True if all of `wanted` are among `lines`, in the same order."""
    rest = iter(lines)
    return all(line in rest for line in wanted)


def _tool_fits(expected: str | list[str] | None, called: list[str], lookups: frozenset[str]) -> bool:
    if expected is None:
        return not called
    if isinstance(expected, list):
        return called == expected
    return expected in called and all(name == expected or name in lookups for name in called)


def _text(value: Any) -> str:
    return "nothing" if value is None else ", ".join(value) if isinstance(value, list) else f"{value}"


def _task_list(tasks: list[FixtureTask]) -> str:
    return "[" + ", ".join(f"{task.description} ({task.status})" for task in tasks) + "]"

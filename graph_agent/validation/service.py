"""Validation: does the agent still decide as the fixtures say?

Each case is played in an empty world of its own, with the real graph, guard and tools; only the report is kept.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field, ValidationError

from graph_agent.audit.drift.baselines import BaselineService
from graph_agent.audit.drift.compare import DEFAULT_THRESHOLD, Drift, compare
from graph_agent.validation.fixtures import Fixture, FixtureTask, FixtureTurn, load_fixtures
from graph_agent.audit.drift.profiles import Profile, profiles_of, seen_in
from graph_agent.audit.drift.reports import ReportKind, keep_report
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.errors import ConfigurationError, GraphAgentError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext, Message, OutcomeCategory, PendingAction
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.models.record import DecisionRecord
from graph_agent.ports import Clock, IdSource, LLMAdapter, ToolServer

_log = logging.getLogger(__name__)


class PlayedTurn(Frozen):
    """What came of one turn: its record, or the outcome of a message that was refused before there was a turn."""

    record: DecisionRecord | None
    refused: OutcomeCategory | None = None
    lookups: frozenset[str] = frozenset()
    """Those of the tools it called that change nothing."""


class PlayedFixture(Frozen):
    """What came of a case, and the tasks that stand at its end, newest first."""

    turns: list[PlayedTurn]
    tasks: list[FixtureTask]


class FixtureRunner(Protocol):
    """Plays one case in a world of its own."""

    async def play(self, fixture: Fixture) -> PlayedFixture:
        """Raises `GraphAgentError` where the case cannot be played at all."""
        ...


class FixtureResult(Frozen):
    """How one case went; `failures` say what was expected and what came."""

    test_id: str
    passed: bool
    failures: list[str]
    inputs: list[str]
    outcomes: list[str]
    replies: list[str]
    duration_ms: int


class ValidationReport(Frozen):
    """What `run_validation` found."""

    report_id: str
    created_at: UtcDatetime
    suite: str | None = None
    models: list[str]
    constitutions: list[str]
    test_count: int
    pass_count: int
    fail_count: int
    results: list[FixtureResult]
    duration_ms: int
    baseline_id: str | None = None
    drift_detected: bool = False
    drift: Drift | None = None
    profiles: list[Profile] = Field(default_factory=list)
    """How the cases were decided, by model and constitution: what a baseline of this suite is made of."""

    @property
    def passed(self) -> bool:
        return not self.fail_count and not self.drift_detected


class ValidationService:
    """Plays fixtures and keeps the reports."""

    def __init__(
        self,
        runner: FixtureRunner,
        database: Database | None = None,
        *,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        """Without `database` no report is kept, and there are no baselines."""
        self._runner = runner
        self._database = database
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()

    def load_fixtures(self, path: str | Path) -> list[Fixture]:
        """The cases of a YAML file, or of a folder of them. Raises `ServiceError` INVALID_FORMAT."""
        return load_fixtures(Path(path))

    async def run_validation(
        self,
        fixtures: Sequence[Fixture],
        baseline_id: str | None = None,
        *,
        suite: str | None = None,
        threshold: float = DEFAULT_THRESHOLD,
        parallel: int = 1,
        on_result: Callable[[FixtureResult], None] | None = None,
    ) -> ValidationReport:
        """Play `fixtures`, `parallel` of them at a time, and compare how they went with a baseline, by id or name.

        Raises `ServiceError` BASELINE_NOT_FOUND, before anything is played, and STORAGE_ERROR.
        """
        baseline = None
        if baseline_id is not None and self._database is not None:
            baseline = await BaselineService(self._database).get_baseline(baseline_id)
        began = time.monotonic()
        records: list[DecisionRecord] = []
        turns_free = asyncio.Semaphore(parallel)

        async def one(fixture: Fixture) -> FixtureResult:
            async with turns_free:
                result, played = await self._play(fixture)
            # A script stands for a model; how it answers says nothing of how the model does.
            records.extend(played if fixture.script is None else [])
            if on_result is not None:
                on_result(result)
            return result

        results = list(await asyncio.gather(*(one(fixture) for fixture in fixtures)))
        profiles = profiles_of(seen_in(record) for record in records)
        drift = None if baseline is None else compare(baseline.profiles, profiles, threshold)
        failed = sum(not result.passed for result in results)
        report = ValidationReport(
            report_id=self._ids.new(),
            created_at=self._clock.now(),
            suite=suite,
            models=sorted({profile.model for profile in profiles}),
            constitutions=sorted({profile.constitution for profile in profiles}),
            test_count=len(results),
            pass_count=len(results) - failed,
            fail_count=failed,
            results=results,
            duration_ms=round((time.monotonic() - began) * 1000),
            baseline_id=None if baseline is None else baseline.baseline_id,
            drift_detected=drift is not None and drift.drift_detected,
            drift=drift,
            profiles=profiles,
        )
        if self._database is not None:
            await keep_report(
                self._database,
                ReportKind.VALIDATION,
                report.report_id,
                report.created_at,
                passed=report.passed,
                report=report.to_json(),
            )
        return report

    async def _play(self, fixture: Fixture) -> tuple[FixtureResult, list[DecisionRecord]]:
        began = time.monotonic()
        try:
            played = await self._runner.play(fixture)
        except GraphAgentError as exc:
            played, failures = PlayedFixture(turns=[], tasks=[]), [f"could not be played: {exc}"]
        except Exception as exc:
            # One broken case must not hide how the others went.
            _log.exception("the case %s ended in an exception", fixture.test_id)
            played, failures = PlayedFixture(turns=[], tasks=[]), [f"ended in an exception: {type(exc).__name__}"]
        else:
            failures = judge(fixture, played)
        records = [turn.record for turn in played.turns if turn.record is not None]
        result = FixtureResult(
            test_id=fixture.test_id,
            passed=not failures,
            failures=failures,
            inputs=[turn.input for turn in fixture.turns],
            outcomes=[_outcome(turn) for turn in played.turns],
            replies=[record.decision.reply for record in records],
            duration_ms=round((time.monotonic() - began) * 1000),
        )
        return result, records


def judge(fixture: Fixture, played: PlayedFixture) -> list[str]:
    """What is not as `fixture` expects; nothing if it passes."""
    failures = []
    for number, (expected, turn) in enumerate(zip(fixture.turns, played.turns, strict=True), start=1):
        where = f"turn {number}: " if len(fixture.turns) > 1 else ""
        failures += [f"{where}{failure}" for failure in _differences(expected, turn)]
    if fixture.expected_tasks is not None and fixture.expected_tasks != played.tasks:
        failures.append(f"expected the tasks {_told(fixture.expected_tasks)}, got {_told(played.tasks)}")
    return failures


def _differences(expected: FixtureTurn, turn: PlayedTurn) -> list[str]:
    decision = None if turn.record is None else turn.record.decision
    called = [] if turn.record is None else [invocation.tool_name for invocation in turn.record.invocations]
    intent = None if decision is None or decision.intent is None else decision.intent.intent_type
    found = {
        "expected_intent": ("intent", expected.expected_intent, intent, expected.expected_intent == intent),
        "expected_tool": (
            "tool", expected.expected_tool, called or None, _tool_fits(expected.expected_tool, called, turn.lookups),
        ),
        "expected_outcome": (
            "outcome", expected.expected_outcome, _outcome(turn), _outcome(turn).startswith(expected.expected_outcome or ""),
        ),
        "expected_decision": (
            "decision",
            expected.expected_decision,
            None if decision is None else decision.decision_type,
            decision is not None and decision.decision_type == expected.expected_decision,
        ),
        "reply_contains": (
            "a reply with",
            expected.reply_contains,
            None if decision is None else decision.reply,
            decision is not None and (expected.reply_contains or "").casefold() in decision.reply.casefold(),
        ),
    }  # fmt: skip
    return [
        f"expected {what} {_shown(wanted)}, got {_shown(got)}"
        for name, (what, wanted, got, fits) in found.items()
        if name in expected.expectations and not fits
    ]


def _tool_fits(expected: str | list[str] | None, called: list[str], lookups: frozenset[str]) -> bool:
    if expected is None:
        return not called
    if isinstance(expected, list):
        return called == expected
    return expected in called and all(name == expected or name in lookups for name in called)


def _outcome(turn: PlayedTurn) -> str:
    if turn.record is None:
        return str(turn.refused)
    return str(turn.record.decision.outcome_category)


def _shown(value: Any) -> str:
    return "nothing" if value is None else ", ".join(value) if isinstance(value, list) else f"{value}"


def _told(tasks: list[FixtureTask]) -> str:
    return "[" + ", ".join(f"{task.description} ({task.status})" for task in tasks) + "]"


@dataclass
class _Case:
    """What is one case's own; it travels with the turn, so that one engine plays any number of them at a time."""

    waited: timedelta = timedelta()
    script: ScriptedAdapter | None = None


_case: ContextVar[_Case | None] = ContextVar("case", default=None)


class _CaseClock:
    """The machine's clock, and the time that the user of the case has waited."""

    def __init__(self) -> None:
        self._clock = SystemClock()

    def now(self) -> datetime:
        case = _case.get()
        return self._clock.now() + (case.waited if case else timedelta())

    def monotonic(self) -> float:
        return self._clock.monotonic()


class _CaseAdapter:
    """The model that is validated, or the script of the case."""

    def __init__(self, adapter: LLMAdapter) -> None:
        self._adapter = adapter

    @property
    def model(self) -> str:
        return self._speaks().model

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = 0.0,
        max_tokens: int = 1024,
        *,
        system_instruction: str | None = None,
    ) -> LLMResponse:
        speaks = self._speaks()
        return await speaks.generate(messages, tools, temperature, max_tokens, system_instruction=system_instruction)

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return self._adapter.get_tool_declarations(tools)

    def _speaks(self) -> LLMAdapter:
        case = _case.get()
        return self._adapter if case is None or case.script is None else case.script


class EngineRunner:
    """`FixtureRunner` on the engine: every case is a user whom `tools` has never seen."""

    def __init__(
        self,
        adapter: LLMAdapter,
        tools: ToolServer,
        constitution: str,
        *,
        config: AgentEngineConfig | None = None,
        ids: IdSource | None = None,
    ) -> None:
        self._tools = tools
        self._ids = ids or RandomIds()
        self._engine = LLMAgentEngine(_CaseAdapter(adapter), tools, constitution, config=config, clock=_CaseClock())

    async def play(self, fixture: Fixture) -> PlayedFixture:
        user_id = f"fixture-{self._ids.new()}"
        task_ids = await self._seed(user_id, fixture.tasks)
        case = _Case(script=None if fixture.script is None else _scripted(fixture.script, task_ids))
        _case.set(case)
        conversation_id = self._ids.new()
        history: list[Message] = []
        pending: PendingAction | None = None
        turns = []
        for turn in fixture.turns:
            case.waited += timedelta(minutes=turn.minutes_later)
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
            record = (await self._engine.run(context)).record
            decision = record.decision
            pending = decision.pending_action
            history = [
                *history,
                Message(role="user", content=turn.input, timestamp=record.header.started_at),
                Message(role="assistant", content=decision.reply, timestamp=record.ended_at),
            ]
            called = {invocation.tool_name for invocation in record.invocations}
            lookups = frozenset(name for name in called if self._tools.traits(name).read_only)
            turns.append(PlayedTurn(record=record, lookups=lookups))
        return PlayedFixture(turns=turns, tasks=await self._standing(user_id))

    async def _seed(self, user_id: str, tasks: Sequence[FixtureTask]) -> list[str]:
        """Make the list, and return the ids in its order: the last one is the oldest."""
        ids = []
        for task in reversed(tasks):
            added = await self._do("add_task", {"description": task.description}, user_id)
            ids.append(str(added["task"]["id"]))
            if task.status == "completed":
                await self._do("complete_task", {"task_id": ids[-1]}, user_id)
        return ids[::-1]

    async def _standing(self, user_id: str) -> list[FixtureTask]:
        listed = await self._do("list_tasks", {}, user_id)
        return [FixtureTask(description=task["description"], status=task["status"]) for task in listed["tasks"]]

    async def _do(self, tool_name: str, arguments: dict[str, Any], user_id: str) -> dict[str, Any]:
        result = await self._tools.execute(tool_name, arguments, user_id)
        if not result.success or not isinstance(result.data, dict):
            raise ConfigurationError(f"the world of a case cannot be made: {tool_name} failed")
        return result.data


def _scripted(script: list[dict[str, Any]], task_ids: list[str]) -> ScriptedAdapter:
    text = json.dumps(script)
    for number, task_id in reversed(list(enumerate(task_ids, start=1))):
        text = text.replace(f"$task{number}", task_id)
    return ScriptedAdapter.of_values(json.loads(text), "the fixture's script")

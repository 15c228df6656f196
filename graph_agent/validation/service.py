"""The validation service: it plays fixtures, compares each decision with its expectations, and stores a report.

Each fixture is played in an empty, isolated environment with the real graph, guard and tools. Only the report is stored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import Field

from graph_agent.audit.drift.baselines import Baseline, BaselineService, StoredReport
from graph_agent.audit.drift.compare import DEFAULT_THRESHOLD, Drift, compare
from graph_agent.audit.drift.profiles import Profile, build_profiles, observe
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.errors import GraphAgentError
from graph_agent.models.base import Frozen
from graph_agent.models.record import DecisionRecord
from graph_agent.ports import Clock, IdSource
from graph_agent.record.tree.leaves import RecordKey, Sealer
from graph_agent.validation.fixtures import Fixture, load_fixtures
from graph_agent.validation.runner import EngineRunner, PlayedFixture, judge

_log = logging.getLogger(__name__)


class FixtureResult(Frozen):
    """The result of one case; each of `failures` says what was expected and what happened instead."""

    test_id: str
    passed: bool
    failures: list[str]
    inputs: list[str]
    outcomes: list[str]
    replies: list[str]
    duration_ms: int


class PlayedCase(Frozen):
    """The result of one case and the records of its turns, without those of a scripted model."""

    result: FixtureResult
    records: list[DecisionRecord]


class ValidationReport(StoredReport):
    """The result of `ValidationService.run_validation`."""

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
    """The behavior over all cases, by model and constitution; a baseline can be created from it."""

    @property
    def passed(self) -> bool:
        return not self.fail_count and not self.drift_detected


class ValidationService:
    """Plays fixtures and stores the reports."""

    def __init__(
        self,
        runner: EngineRunner,
        database: Database | None = None,
        *,
        record_key: RecordKey = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        """Without `database` no report is stored and `baseline_id` is ignored. `record_key` seals the reports."""
        self._runner = runner
        self._database = database
        self._sealer = Sealer(record_key)
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()

    def load_fixtures(self, path: str | Path) -> list[Fixture]:
        """Load the fixtures of a YAML file, or of all files in a folder. Raises `ServiceError` INVALID_FORMAT."""
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
        """Play `fixtures`, `parallel` of them at a time, and compare the behavior with the baseline of this id or name.

        `on_result` is called after each fixture. Raises `ServiceError` BASELINE_NOT_FOUND before the first fixture is played,
        and STORAGE_ERROR.
        """
        baseline = await self.find_baseline(baseline_id)
        started = time.monotonic()
        played = await self.play(fixtures, parallel=parallel, on_result=on_result)
        return await self.report(played, baseline, suite=suite, threshold=threshold, seconds=time.monotonic() - started)

    async def find_baseline(self, baseline_id: str | None) -> Baseline | None:
        """Return the baseline of this id or name; None if none is named. Raises `ServiceError` BASELINE_NOT_FOUND."""
        if baseline_id is None or self._database is None:
            return None
        return await BaselineService(self._database).get_baseline(baseline_id)

    async def play(
        self, fixtures: Sequence[Fixture], *, parallel: int = 1, on_result: Callable[[FixtureResult], None] | None = None
    ) -> list[PlayedCase]:
        """Play `fixtures`, `parallel` of them at a time, and judge them."""
        slots = asyncio.Semaphore(parallel)

        async def play_one(fixture: Fixture) -> PlayedCase:
            async with slots:
                played = await self._play(fixture)
            if on_result is not None:
                on_result(played.result)
            return played

        return list(await asyncio.gather(*(play_one(fixture) for fixture in fixtures)))

    async def report(
        self,
        played: Sequence[PlayedCase],
        baseline: Baseline | None,
        *,
        suite: str | None,
        seconds: float,
        threshold: float = DEFAULT_THRESHOLD,
    ) -> ValidationReport:
        """Compare the behavior of cases that were played, here or in other processes, and store the report."""
        results = [case.result for case in played]
        records = [record for case in played for record in case.records]
        profiles = build_profiles(observe(record) for record in records)
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
            duration_ms=round(seconds * 1000),
            baseline_id=None if baseline is None else baseline.baseline_id,
            drift_detected=drift is not None and drift.drift_detected,
            drift=drift,
            profiles=profiles,
        )
        if self._database is not None:
            await report.store(self._database, self._sealer, "validation", passed=report.passed)
        return report

    async def _play(self, fixture: Fixture) -> PlayedCase:
        started = time.monotonic()
        try:
            played = await self._runner.play(fixture)
        except GraphAgentError as exc:
            played, failures = PlayedFixture(turns=[], tasks=[]), [f"could not be played: {exc}"]
        except Exception as exc:
            # One broken fixture must not hide the results of the others.
            _log.exception("the fixture %s raised an exception", fixture.test_id)
            played, failures = PlayedFixture(turns=[], tasks=[]), [f"raised an exception: {type(exc).__name__}"]
        else:
            failures = judge(fixture, played)
        records = [turn.record for turn in played.turns if turn.record is not None]
        result = FixtureResult(
            test_id=fixture.test_id,
            passed=not failures,
            failures=failures,
            inputs=[turn.input for turn in fixture.turns],
            outcomes=[turn.outcome for turn in played.turns],
            replies=[record.decision.reply for record in records],
            duration_ms=round((time.monotonic() - started) * 1000),
        )
        # A scripted fixture says nothing about the behavior of the model.
        return PlayedCase(result=result, records=records if fixture.script is None else [])

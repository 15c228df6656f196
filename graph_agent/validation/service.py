"""The validation service: it plays fixtures, compares each decision with its expectations, and stores a report.

Each fixture is played with the real graph and guard, on tools that change nothing outside of it; see `runner`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.errors import GraphAgentError
from graph_agent.models.base import Frozen
from graph_agent.models.record import DecisionRecord
from graph_agent.ports import Clock, IdSource
from graph_agent.record.reports import StoredReport
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

    @property
    def passed(self) -> bool:
        return not self.fail_count


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
        """Without `database` no report is stored. `record_key` seals the reports."""
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
        *,
        suite: str | None = None,
        parallel: int = 1,
        on_result: Callable[[FixtureResult], None] | None = None,
    ) -> ValidationReport:
        """Play `fixtures`, `parallel` of them at a time, and store the report. `on_result` is called after each fixture.

        Raises `ServiceError` STORAGE_ERROR.
        """
        started = time.monotonic()
        played = await self.play(fixtures, parallel=parallel, on_result=on_result)
        return await self.report(played, suite=suite, seconds=time.monotonic() - started)

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

    async def report(self, played: Sequence[PlayedCase], *, suite: str | None, seconds: float) -> ValidationReport:
        """Return and store the report about cases that were played, here or in other processes."""
        results = [case.result for case in played]
        headers = [record.header for case in played for record in case.records]
        failed = sum(not result.passed for result in results)
        report = ValidationReport(
            report_id=self._ids.new(),
            created_at=self._clock.now(),
            suite=suite,
            models=sorted({header.model for header in headers}),
            constitutions=sorted({header.constitution for header in headers}),
            test_count=len(results),
            pass_count=len(results) - failed,
            fail_count=failed,
            results=results,
            duration_ms=round(seconds * 1000),
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

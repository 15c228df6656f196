"""The report of a validation: the result of each case, and profiles of the behaviour over all cases."""

from __future__ import annotations

from pydantic import Field

from graph_agent.audit.drift.profiles import Profile
from graph_agent.audit.drift.result import Drift
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.record import DecisionRecord


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


class ValidationReport(Frozen):
    """The result of `ValidationService.run_validation`."""

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
    """The behaviour over all cases, by model and constitution; a baseline can be created from it."""

    @property
    def passed(self) -> bool:
        return not self.fail_count and not self.drift_detected

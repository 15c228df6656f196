"""Baselines: how the agent behaved in a span of time, kept under a name to compare later behaviour with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field, ValidationError, field_validator
from sqlalchemy import Connection, insert, or_, select
from sqlalchemy.exc import IntegrityError

from graph_agent.audit.drift.compare import DEFAULT_THRESHOLD, MIN_DECISIONS, Drift, compare
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.drift.profiles import Profile, read_profiles
from graph_agent.record.statements import read, write
from graph_agent.audit.drift.reports import ReportKind, keep_report
from graph_agent.record.tables import BaselineRow, table_of
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import unstorable
from graph_agent.ports import Clock, IdSource

_baselines = table_of(BaselineRow)

_READ_SECONDS = 60.0


class Baseline(Frozen):
    """Profiles under a name; `decisions` is how many they were made from."""

    baseline_id: str
    name: str = Field(min_length=1, max_length=255)
    description: str | None = None
    created_at: UtcDatetime
    since: UtcDatetime | None = None
    until: UtcDatetime | None = None
    decisions: int
    profiles: list[Profile]

    @field_validator("name", "description")
    @classmethod
    def _storable(cls, value: str | None) -> str | None:
        if value is not None and (not value.strip() or (reason := unstorable(value))):
            raise ValueError(reason if value.strip() else "must not be blank")
        return value


class DriftReport(Drift):
    """A comparison with a baseline, as it is stored."""

    report_id: str
    baseline_id: str
    baseline_name: str
    created_at: UtcDatetime
    since: UtcDatetime | None
    until: UtcDatetime | None
    decisions: int


class BaselineService:
    """Makes baselines from the log and compares the log with them."""

    def __init__(self, database: Database, *, clock: Clock | None = None, ids: IdSource | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()

    async def create_baseline(
        self,
        name: str,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        description: str | None = None,
        filters: DecisionFilter | None = None,
    ) -> Baseline:
        """Keep how the decisions from `since` to before `until` were made.

        Raises `ServiceError`: DUPLICATE_NAME, INSUFFICIENT_DATA for fewer than `MIN_DECISIONS` closed decisions,
        VALIDATION_ERROR.
        """
        spanned = (filters or DecisionFilter()).spanning(since, until)
        profiles = await self._profiles(spanned)
        # Without an end it holds what was closed by now: later decisions are there to be compared with it.
        until = spanned.until or self._clock.now()
        return await self.keep_profiles(name, profiles, since=spanned.since, until=until, description=description)

    async def keep_profiles(
        self,
        name: str,
        profiles: Sequence[Profile],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        description: str | None = None,
    ) -> Baseline:
        """Keep profiles that were made elsewhere, as those of a validation are. Raises like `create_baseline`."""
        decisions = sum(profile.decisions for profile in profiles)
        try:
            baseline = Baseline(
                baseline_id=self._ids.new(),
                name=name,
                description=description,
                created_at=self._clock.now(),
                since=since,
                until=until,
                decisions=decisions,
                profiles=list(profiles),
            )
        except ValidationError as exc:
            slip = exc.errors(include_url=False, include_input=False)[0]
            text = f"{slip['loc'][0]}: {slip['msg'].removeprefix('Value error, ')}"
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, text) from None
        if await self._found(name) is not None:
            raise _duplicate(name)
        if decisions < MIN_DECISIONS:
            text = f"A baseline needs at least {MIN_DECISIONS} closed decisions; there are {decisions}."
            raise ServiceError(ServiceErrorCode.INSUFFICIENT_DATA, text)
        row = {**dict(baseline), "profiles": [profile.to_json() for profile in profiles]}
        try:
            await write(self._database, lambda connection: connection.execute(insert(_baselines), row) and None)
        except ServiceError as exc:
            if isinstance(exc.__cause__, IntegrityError):
                raise _duplicate(name) from exc
            raise
        return baseline

    async def list_baselines(self) -> list[Baseline]:
        """All of them, newest first."""
        wanted = select(_baselines).order_by(_baselines.c.created_at.desc(), _baselines.c.name)

        def work(connection: Connection) -> list[Baseline]:
            return [Baseline.model_validate(dict(row)) for row in connection.execute(wanted).mappings()]

        return await read(self._database, work)

    async def get_baseline(self, name_or_id: str) -> Baseline:
        """One of them. Raises `ServiceError` BASELINE_NOT_FOUND."""
        baseline = await self._found(name_or_id)
        if baseline is None:
            raise ServiceError(ServiceErrorCode.BASELINE_NOT_FOUND, "There is no baseline of this name or id.")
        return baseline

    async def compare_to_baseline(
        self,
        name_or_id: str,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        threshold: float = DEFAULT_THRESHOLD,
        filters: DecisionFilter | None = None,
    ) -> DriftReport:
        """How the decisions from `since` to before `until` differ from a baseline; `drift.py` says by which tests.

        Without `since` it begins where the baseline ends, if it ends. The report is stored. Raises `ServiceError`:
        BASELINE_NOT_FOUND, INSUFFICIENT_DATA for fewer than `MIN_DECISIONS` closed decisions, VALIDATION_ERROR.
        """
        if not 0 < threshold < 1:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "threshold must lie between 0 and 1")
        baseline = await self.get_baseline(name_or_id)
        spanned = (filters or DecisionFilter()).spanning(since or baseline.until, until)
        profiles = await self._profiles(spanned)
        decisions = sum(profile.decisions for profile in profiles)
        if decisions < MIN_DECISIONS:
            text = f"A comparison needs at least {MIN_DECISIONS} closed decisions; there are {decisions}."
            raise ServiceError(ServiceErrorCode.INSUFFICIENT_DATA, text)
        report = DriftReport(
            **dict(compare(baseline.profiles, profiles, threshold)),
            report_id=self._ids.new(),
            baseline_id=baseline.baseline_id,
            baseline_name=baseline.name,
            created_at=self._clock.now(),
            since=spanned.since,
            until=spanned.until,
            decisions=decisions,
        )
        await keep_report(
            self._database,
            ReportKind.DRIFT,
            report.report_id,
            report.created_at,
            passed=not report.drift_detected,
            report=report.to_json(),
        )
        return report

    async def _profiles(self, filters: DecisionFilter) -> list[Profile]:
        return await read(self._database, lambda connection: read_profiles(connection, filters), seconds=_READ_SECONDS)

    async def _found(self, name_or_id: str) -> Baseline | None:
        # A name first: an id is one of ours, and nobody calls a baseline so.
        wanted = (
            select(_baselines)
            .where(or_(_baselines.c.name == name_or_id, _baselines.c.baseline_id == name_or_id))
            .order_by((_baselines.c.name == name_or_id).desc())
            .limit(1)
        )
        row = await read(self._database, lambda connection: connection.execute(wanted).mappings().one_or_none())
        return None if row is None else Baseline.model_validate(dict(row))


def _duplicate(name: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.DUPLICATE_NAME, f"There is a baseline called '{name}' already.")

"""Baselines: the behavior of the agent in a time range, stored under a name, to compare later behavior with.

The reports of comparisons and of validations are stored too.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Literal

from pydantic import Field, ValidationError
from sqlalchemy import Connection, and_, or_, select
from sqlalchemy.exc import IntegrityError

from graph_agent.audit.drift.compare import DEFAULT_THRESHOLD, MIN_DECISIONS, Drift, compare
from graph_agent.audit.drift.profiles import Profile, read_profiles
from graph_agent.audit.filters import DecisionFilter
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, UtcDatetime, located_violation
from graph_agent.models.decision import FilledText
from graph_agent.ports import Clock, IdSource
from graph_agent.record.statements import read, write
from graph_agent.record.tables import baselines_table, reports_table
from graph_agent.record.tree.leaves import RecordKey, Sealer, insert_leaf_row
from graph_agent.record.tree.tables import LeafKind

_READ_SECONDS = 60.0
"""Time limit for reading profiles: they cover all decisions of the range."""


_COLUMNS = [column for column in baselines_table.columns if column.name != "salt"]


class Baseline(Frozen):
    """Named profiles of `decisions` decisions."""

    baseline_id: str
    name: FilledText = Field(min_length=1, max_length=255)
    description: FilledText | None = None
    created_at: UtcDatetime
    since: UtcDatetime | None = None
    until: UtcDatetime | None = None
    decisions: int
    profiles: list[Profile]


class StoredReport(Frozen):
    """A report that is stored under an id."""

    report_id: str
    created_at: UtcDatetime

    async def store(self, database: Database, sealer: Sealer, kind: Literal["drift", "validation"], *, passed: bool) -> None:
        """Store the report, which becomes a leaf of the tree. Raises `ServiceError` STORAGE_ERROR."""
        row = {
            "report_id": self.report_id, "kind": kind, "created_at": self.created_at, "passed": passed, "report": self.to_json()
        }  # fmt: skip
        await write(database, lambda connection: insert_leaf_row(connection, LeafKind.REPORT, reports_table, row, sealer))


class DriftReport(Drift, StoredReport):
    """The stored result of a comparison with a baseline."""

    baseline_id: str
    baseline_name: str
    since: UtcDatetime | None
    until: UtcDatetime | None
    decisions: int


class BaselineService:
    """Creates baselines from the log and compares the log with them."""

    def __init__(
        self, database: Database, *, record_key: RecordKey = None, clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        """`record_key` seals what is stored, as it seals decisions."""
        self._database = database
        self._sealer = Sealer(record_key)
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
        """Create a baseline from the closed decisions from `since` (inclusive) to `until` (exclusive).

        Raises `ServiceError`: DUPLICATE_NAME, INSUFFICIENT_DATA for fewer than `MIN_DECISIONS` closed decisions,
        VALIDATION_ERROR.
        """
        selected = (filters or DecisionFilter()).in_range(since, until)
        profiles = await self._profiles(selected)
        # Without an end the range ends now, so that later decisions can be compared with it.
        until = selected.until or self._clock.now()
        decisions = sum(profile.decisions for profile in profiles)
        try:
            baseline = Baseline(
                baseline_id=self._ids.new(),
                name=name,
                description=description,
                created_at=self._clock.now(),
                since=selected.since,
                until=until,
                decisions=decisions,
                profiles=list(profiles),
            )
        except ValidationError as exc:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, located_violation(exc)) from None
        if await self._find(name) is not None:
            raise _duplicate(name)
        _check_enough("A baseline", decisions)
        row = {**dict(baseline), "profiles": [profile.to_json() for profile in profiles]}
        try:
            insert = partial(insert_leaf_row, kind=LeafKind.BASELINE, table=baselines_table, row=row, sealer=self._sealer)
            await write(self._database, insert)
        except ServiceError as exc:
            if isinstance(exc.__cause__, IntegrityError):
                raise _duplicate(name) from exc
            raise
        return baseline

    async def list_baselines(self, limit: int | None = None, before: str | None = None) -> list[Baseline]:
        """Return the baselines, newest first: at most `limit`, and only those after the baseline with the id `before`.

        Raises `ServiceError` BASELINE_NOT_FOUND if `before` does not exist.
        """
        columns = baselines_table.c
        wanted = select(*_COLUMNS).order_by(columns.created_at.desc(), columns.name).limit(limit)

        def read_page(connection: Connection) -> list[Baseline]:
            page = wanted
            if before is not None:
                at = select(columns.created_at, columns.name).where(columns.baseline_id == before)
                last = connection.execute(at).one_or_none()
                if last is None:
                    raise _not_found()
                same_time = and_(columns.created_at == last.created_at, columns.name > last.name)
                page = wanted.where(or_(columns.created_at < last.created_at, same_time))
            return [Baseline.model_validate(dict(row)) for row in connection.execute(page).mappings()]

        return await read(self._database, read_page)

    async def get_baseline(self, name_or_id: str) -> Baseline:
        """Return one baseline. Raises `ServiceError` BASELINE_NOT_FOUND."""
        baseline = await self._find(name_or_id)
        if baseline is None:
            raise _not_found()
        return baseline

    async def compare_to_baseline(
        self,
        name_or_id: str,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        threshold: float = DEFAULT_THRESHOLD,
        filters: DecisionFilter | None = None,
        store: bool = True,
    ) -> DriftReport:
        """Compare the decisions from `since` (inclusive) to `until` (exclusive) with a baseline, and `store` the report.

        Without `since` the range starts at the end of the baseline. Raises `ServiceError`: BASELINE_NOT_FOUND,
        INSUFFICIENT_DATA for fewer than `MIN_DECISIONS` closed decisions, VALIDATION_ERROR.
        """
        if not 0 < threshold < 1:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "threshold must be between 0 and 1")
        baseline = await self.get_baseline(name_or_id)
        selected = (filters or DecisionFilter()).in_range(since or baseline.until, until)
        profiles = await self._profiles(selected)
        decisions = sum(profile.decisions for profile in profiles)
        _check_enough("A comparison", decisions)
        report = DriftReport(
            **dict(compare(baseline.profiles, profiles, threshold)),
            report_id=self._ids.new(),
            baseline_id=baseline.baseline_id,
            baseline_name=baseline.name,
            created_at=self._clock.now(),
            since=selected.since,
            until=selected.until,
            decisions=decisions,
        )
        if store:
            await report.store(self._database, self._sealer, "drift", passed=not report.drift_detected)
        return report

    async def _profiles(self, filters: DecisionFilter) -> list[Profile]:
        return await read(self._database, lambda connection: read_profiles(connection, filters), seconds=_READ_SECONDS)

    async def _find(self, name_or_id: str) -> Baseline | None:
        # If a baseline has the id of another one as its name, the name wins.
        wanted = (
            select(*_COLUMNS)
            .where(or_(baselines_table.c.name == name_or_id, baselines_table.c.baseline_id == name_or_id))
            .order_by((baselines_table.c.name == name_or_id).desc())
            .limit(1)
        )
        row = await read(self._database, lambda connection: connection.execute(wanted).mappings().one_or_none())
        return None if row is None else Baseline.model_validate(dict(row))


def _check_enough(what: str, decisions: int) -> None:
    if decisions < MIN_DECISIONS:
        text = f"{what} needs at least {MIN_DECISIONS} closed decisions; there are {decisions}."
        raise ServiceError(ServiceErrorCode.INSUFFICIENT_DATA, text)


def _not_found() -> ServiceError:
    return ServiceError(ServiceErrorCode.BASELINE_NOT_FOUND, "There is no baseline with this name or id.")


def _duplicate(name: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.DUPLICATE_NAME, f"A baseline with the name '{name}' already exists.")

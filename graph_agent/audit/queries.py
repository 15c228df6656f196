"""The read path of the log: one decision, pages of decisions, metrics and export."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Collection
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from graph_agent.audit.export import export_pieces
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.metrics import MetricsSummary, read_metrics
from graph_agent.audit.trace import ROW_COLUMNS, DecisionTrace, LoggedDecision, logged_decisions, read_trace
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen
from graph_agent.record.statements import QUERY_SECONDS, read
from graph_agent.record.tables import decision_logs, record_blobs

MAX_LIMIT = 1000
MAX_OFFSET = 1_000_000_000
COUNTED_EXACTLY = 10_000
"""A larger total is not counted further and reported as a lower bound."""


class DecisionPage(Frozen):
    """One page of the matching decisions, newest first. `total` is a lower bound if it is not exact."""

    items: list[LoggedDecision]
    total: int
    total_is_exact: bool
    limit: int
    offset: int
    has_more: bool


class LogQueryService:
    """Queries of the log. Errors are `ServiceError`s with a code; `seconds` is the time limit of each query.

    If `database` is a replica, `current` is its original: a decision that the replica does not have yet is read there.
    """

    def __init__(self, database: Database, *, current: Database | None = None, seconds: float = QUERY_SECONDS) -> None:
        self._database = database
        self._current = current or database
        self._seconds = seconds

    async def get_decision_trace(self, decision_id: str, *, user_id: str | None = None) -> DecisionTrace:
        """Return everything about one decision. Raises DECISION_NOT_FOUND, also if `user_id` is given and is not its user."""
        trace = None
        for database in dict.fromkeys((self._database, self._current)):
            trace = await read(database, lambda connection: read_trace(connection, decision_id), seconds=self._seconds)
            if trace is not None:
                break
        if trace is None or (user_id is not None and trace.decision.user_id != user_id):
            raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no such decision.")
        return trace

    async def query_decisions(
        self,
        filters: DecisionFilter | None = None,
        *,
        limit: int = 100,
        offset: int = 0,
        before: str | None = None,
        after: str | None = None,
        together: bool = False,
    ) -> DecisionPage:
        """Return a page of the decisions that match `filters`, newest first, in a stable order.

        `before` is the id of a decision: the page starts behind it, and new decisions do not move it. With the id `after` the
        page has only newer decisions. Listed `together`, the decisions about one question are one row, which is the last of
        them: a search finds it by the words of each, and everything else by its own. Raises VALIDATION_ERROR, and
        DECISION_NOT_FOUND if one of the ids does not exist.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"limit must be from 1 to {MAX_LIMIT}")
        if not 0 <= offset <= MAX_OFFSET:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"offset must be from 0 to {MAX_OFFSET}")
        selected = filters or DecisionFilter()
        is_whole = before is None and after is None

        def read_page(connection: Connection) -> tuple[list[LoggedDecision], int, bool]:
            conditions = selected.conditions(connection, together=together)
            page = (
                select(*ROW_COLUMNS)
                .where(*conditions, *_between(connection, after, before, selected.user_id))
                .order_by(decision_logs.c.created_at.desc(), decision_logs.c.decision_id.desc())
                .limit(limit + 1)
                .offset(offset)
            )
            found = logged_decisions(connection, connection.execute(page).mappings().all())
            if is_whole and len(found) <= limit and (found or not offset):
                # The page is the last one, so the total is known without counting.
                return found, offset + len(found), True
            matching = select(decision_logs.c.created_at).where(*conditions).limit(COUNTED_EXACTLY + 1).subquery()
            counted = connection.execute(select(func.count()).select_from(matching)).scalar_one()
            return found, counted, counted <= COUNTED_EXACTLY

        found, total, exact = await read(self._database, read_page, seconds=self._seconds)
        return DecisionPage(
            items=found[:limit],
            total=total if exact else max(COUNTED_EXACTLY, offset + len(found)),
            total_is_exact=exact,
            limit=limit,
            offset=offset,
            has_more=len(found) > limit,
        )

    async def get_metrics_summary(
        self, since: datetime | None = None, until: datetime | None = None, *, filters: DecisionFilter | None = None
    ) -> MetricsSummary:
        """Return the metrics of the matching decisions from `since` (inclusive) to `until` (exclusive)."""
        selected = (filters or DecisionFilter()).in_range(since, until)
        return await read(self._database, lambda connection: read_metrics(connection, selected), seconds=self._seconds)

    async def get_metrics_timeline(
        self, since: datetime, until: datetime, parts: int, *, filters: DecisionFilter | None = None
    ) -> list[MetricsSummary]:
        """Return the metrics of `parts` consecutive ranges of equal length, from `since` (inclusive) to `until` (exclusive)."""
        selected = (filters or DecisionFilter()).in_range(since, until)
        step = (until - since) / parts
        edges = [since + step * part for part in range(parts)]
        ranges = [selected.in_range(start, end) for start, end in zip(edges, [*edges[1:], until], strict=True)]

        def read_each_range(connection: Connection) -> list[MetricsSummary]:
            return [read_metrics(connection, one) for one in ranges]

        return await read(self._database, read_each_range, seconds=self._seconds)

    async def texts(self, digests: Collection[str]) -> dict[str, str]:
        """Return the stored texts with these digests, such as those that a header names, by digest."""
        wanted = select(record_blobs.c.digest, record_blobs.c.text).where(record_blobs.c.digest.in_(sorted(digests)))
        rows = await read(self._current, lambda connection: connection.execute(wanted).all(), seconds=self._seconds)
        return {row.digest: row.text for row in rows}

    def export_logs(
        self,
        format: str = "jsonl",  # noqa: A002 (the name of the parameter in the public API)
        filters: DecisionFilter | None = None,
    ) -> AsyncIterator[str]:
        """Yield the matching closed decisions, oldest first, as pieces of text. Raises INVALID_FORMAT immediately.

        `jsonl`: one object per line; `{"type": "blob", "digest", "text"}` comes before the first
        `{"type": "decision", "record"}` that references it. `json`: the same objects in one array. Only one batch is in
        memory at a time.
        """
        return export_pieces(self._database, format, filters or DecisionFilter())


def _between(connection: Connection, after: str | None, before: str | None, user_id: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions for the decisions newer than `after` and older than `before`.

    A user who may not read such a decision does not learn that it exists.
    """
    columns = decision_logs.c
    conditions: list[ColumnElement[bool]] = []
    for decision_id, is_beyond in ((after, operator.gt), (before, operator.lt)):
        if decision_id is None:
            continue
        wanted = [columns.decision_id == decision_id, *([] if user_id is None else [columns.user_id == user_id])]
        at = connection.execute(select(columns.created_at).where(*wanted)).scalar_one_or_none()
        if at is None:
            raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no such decision.")
        same_time = and_(columns.created_at == at, is_beyond(columns.decision_id, decision_id))
        conditions.append(or_(is_beyond(columns.created_at, at), same_time))
    return conditions

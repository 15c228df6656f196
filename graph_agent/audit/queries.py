"""The log, reading side: one decision, many decisions, figures over them, and the way out and in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime

from sqlalchemy import Connection, func, select

from graph_agent.audit.export import LogExport
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.importer import ImportReport, import_records
from graph_agent.audit.metrics import MetricsSummary, read_metrics
from graph_agent.record.statements import QUERY_SECONDS, read
from graph_agent.record.tables import DecisionLog, table_of
from graph_agent.audit.trace import ROW_COLUMNS, DecisionTrace, LoggedDecision, read_trace
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen

MAX_LIMIT = 1000
MAX_OFFSET = 1_000_000_000
COUNTED_EXACTLY = 10_000
"""Beyond this many a total is given as "at least"."""

_decisions = table_of(DecisionLog)


class DecisionPage(Frozen):
    """Some of the decisions that were asked for, newest first. `total` is a lower bound where it is not exact."""

    items: list[LoggedDecision]
    total: int
    total_is_exact: bool
    limit: int
    offset: int
    has_more: bool


class LogQueryService:
    """Asks the log. Failures are `ServiceError`s with a code; `seconds` bounds every question."""

    def __init__(self, database: Database, *, seconds: float = QUERY_SECONDS) -> None:
        self._database = database
        self._seconds = seconds

    async def get_decision_trace(self, decision_id: str, *, user_id: str | None = None) -> DecisionTrace:
        """Everything of one decision. Raises DECISION_NOT_FOUND, also for another user's where `user_id` is given."""
        trace = await read(self._database, lambda connection: read_trace(connection, decision_id), seconds=self._seconds)
        if trace is None or (user_id is not None and trace.decision.user_id != user_id):
            raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no such decision.")
        return trace

    async def query_decisions(
        self, filters: DecisionFilter | None = None, *, limit: int = 100, offset: int = 0
    ) -> DecisionPage:
        """The decisions that `filters` mean, newest first, in an order that stays. Raises VALIDATION_ERROR."""
        if not 1 <= limit <= MAX_LIMIT:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"limit must be from 1 to {MAX_LIMIT}")
        if not 0 <= offset <= MAX_OFFSET:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"offset must be from 0 to {MAX_OFFSET}")
        asked = filters or DecisionFilter()

        def work(connection: Connection) -> tuple[list[LoggedDecision], int]:
            conditions = asked.conditions(connection)
            page = (
                select(*ROW_COLUMNS)
                .where(*conditions)
                .order_by(_decisions.c.created_at.desc(), _decisions.c.decision_id.desc())
                .limit(limit + 1)
                .offset(offset)
            )
            found = [LoggedDecision.of(row) for row in connection.execute(page).mappings()]
            if len(found) <= limit and (found or not offset):
                # The page reaches the end, so the total is known without counting.
                return found, offset + len(found)
            matching = select(_decisions.c.created_at).where(*conditions).limit(COUNTED_EXACTLY + 1).subquery()
            return found, connection.execute(select(func.count()).select_from(matching)).scalar_one()

        found, total = await read(self._database, work, seconds=self._seconds)
        exact = (len(found) <= limit and bool(found or not offset)) or total <= COUNTED_EXACTLY
        return DecisionPage(
            items=found[:limit],
            total=total if exact else max(COUNTED_EXACTLY, offset + len(found)),
            total_is_exact=exact,
            limit=limit,
            offset=offset,
            has_more=len(found) > limit,
        )

    async def get_metrics_summary(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        filters: DecisionFilter | None = None,
    ) -> MetricsSummary:
        """Figures over the decisions from `since` to before `until` that `filters` mean."""
        spanned = (filters or DecisionFilter()).spanning(since, until)
        return await read(self._database, lambda connection: read_metrics(connection, spanned), seconds=self._seconds)

    def export_logs(
        self,
        format: str = "jsonl",  # noqa: A002 (its name everywhere)
        filters: DecisionFilter | None = None,
    ) -> AsyncIterator[str]:
        """The closed decisions that `filters` mean, oldest first, as text in pieces. Raises INVALID_FORMAT at once.

        `jsonl`: one object a line, `{"type": "blob", "digest", "text"}` before the first `{"type": "decision", "record"}` that
        names it. `json`: the same objects in one array. Nothing is held in memory but one batch.
        """
        return LogExport(self._database, format, filters or DecisionFilter()).pieces()

    async def import_logs(self, pieces: Iterable[str], *, chain_key: bytes | None = None) -> ImportReport:
        """Take in what `export_logs` gave, of either format. Decisions that stand already are left as they are.

        What is new joins a chain of its own, sealed with `chain_key`: from here on a change shows.
        Raises INVALID_FORMAT, naming the object, for anything else; what came before it has been taken in.
        """
        return await import_records(self._database, pieces, chain_key=chain_key)

"""Slices of the log by time, for work that several processes share."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.db import Database
from graph_agent.record.statements import read
from graph_agent.record.tables import CLOSED, decision_logs

SIZE = 2_000
"""The number of decisions in a slice: few, so that little is repeated after a crash; enough to outweigh opening the log."""

_SPLIT_SECONDS = 600.0


class TimeSlice(NamedTuple):
    """The `decisions` closed decisions that began from `since` (inclusive) to `until` (exclusive)."""

    since: datetime
    until: datetime
    decisions: int

    @property
    def name(self) -> str:
        """The name of a file for its results. A turn that ends late changes the number of decisions, and so the name."""
        times = "_".join(f"{at:%Y%m%dT%H%M%S.%f}" for at in (self.since, self.until))
        return f"{times}_{self.decisions}"


async def split_log(database: Database, filters: DecisionFilter, size: int | None = None) -> list[TimeSlice]:
    """Divide the closed decisions that match `filters` into slices of about `size` (default: `SIZE`), oldest first.

    Decisions that began at the same moment are in one slice. Raises `ServiceError` if the log cannot be read.
    """
    wanted = SIZE if size is None else size

    def divide(connection: Connection) -> list[TimeSlice]:
        created_at = decision_logs.c.created_at
        matching = [*filters.conditions(connection), CLOSED]
        first, last = connection.execute(select(func.min(created_at), func.max(created_at)).where(*matching)).one()
        slices: list[TimeSlice] = []
        since: datetime | None = first
        while since is not None:
            following = select(created_at).where(*matching, created_at > since).order_by(created_at)
            after = connection.execute(following.offset(wanted - 1).limit(1)).scalar_one_or_none()
            until = after or last + timedelta(microseconds=1)
            counted = select(func.count()).where(*matching, created_at >= since, created_at < until)
            slices.append(TimeSlice(since, until, connection.execute(counted).scalar_one()))
            since = after
        return slices

    return await read(database, divide, seconds=_SPLIT_SECONDS)

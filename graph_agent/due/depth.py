"""The work that waits, as operators see it: totals of each kind and lane, and the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from graph_agent.db import Database
from graph_agent.due.table import Lane
from graph_agent.due.tables import due

MOST_LANES = 20
"""The lanes that metrics name; the others are counted together."""
LABEL_LENGTH = 8
LATE_SECONDS = 60.0
"""Work that is due for longer than this is taken by no worker, or by too few."""
_OTHERS = "other"


@dataclass(frozen=True, slots=True)
class Depth:
    """The work of one kind and lane."""

    rows: int
    late: float
    """The seconds for which the oldest has been due; 0 if nothing is due."""
    stuck: int
    """The rows that were tried for the last time."""

    def __add__(self, other: Depth) -> Depth:
        return Depth(self.rows + other.rows, max(self.late, other.late), self.stuck + other.stuck)


@dataclass(frozen=True, slots=True)
class DueRow:
    """One row, without what only its worker needs."""

    kind: str
    key: str
    lane: str
    user_id: str
    due_at: datetime | None
    """None if it is stuck."""
    attempts: int
    running: bool
    error: str


def find_depths(database: Database, connection: Connection) -> dict[Lane, Depth]:
    """Return what waits, by kind and lane. It reads all rows: not for every scrape."""
    stuck = func.count() - func.count(due.c.due_at)
    first = func.min(due.c.due_at).label("first")
    totals = select(due.c.kind, due.c.lane, func.count().label("rows"), stuck.label("stuck"), first)
    now: datetime = connection.execute(select(database.time())).scalar_one()
    found = connection.execute(totals.group_by(due.c.kind, due.c.lane).order_by(due.c.kind, due.c.lane)).all()

    def late(first: datetime | None) -> float:
        return 0.0 if first is None else max(0.0, (now - first).total_seconds())

    return {(row.kind, row.lane): Depth(row.rows, late(row.first), row.stuck) for row in found}


def labelled(depths: Mapping[Lane, Depth]) -> dict[Lane, Depth]:
    """Return the depths by short labels, of at most `MOST_LANES` lanes and one for all others: the latest are named."""
    found: dict[Lane, Depth] = {}
    for number, ((kind, lane), depth) in enumerate(sorted(depths.items(), key=lambda one: -one[1].late)):
        label = kind, lane[:LABEL_LENGTH] if number < MOST_LANES else _OTHERS
        found[label] = found[label] + depth if label in found else depth
    return found


def find_rows(connection: Connection, *, stuck: bool, limit: int) -> list[DueRow]:
    """Return rows, those that are due first; with `stuck`, only those that were tried for the last time."""
    wanted = select(due).order_by(due.c.due_at.is_(None).desc(), due.c.due_at, due.c.kind, due.c.key).limit(limit)
    if stuck:
        wanted = wanted.where(due.c.due_at.is_(None))
    rows = connection.execute(wanted)
    return [
        DueRow(row.kind, row.key, row.lane, row.user_id, row.due_at, row.attempts, row.taken is not None, row.error or "")
        for row in rows
    ]


def summary(depths: Mapping[Lane, Depth]) -> str:
    """Return what waits in one line, with the lanes that no worker serves."""
    if not depths:
        return "nothing waits"
    return "; ".join(_line(lane, depth) for lane, depth in depths.items())


def _line(lane: Lane, depth: Depth) -> str:
    name = " ".join(part for part in lane if part)
    late = f", the oldest due for {depth.late:.0f} s: no server takes it" if depth.late > LATE_SECONDS else ""
    stuck = f", {depth.stuck} stuck: see `graph-agent due list --stuck`" if depth.stuck else ""
    return f"{name}: {depth.rows}{late}{stuck}"

"""Due work: a row for each thing that is to be done, written in the commit that makes it so.

The interface, each method in a transaction of its caller, such as the work of `Database.write`:

    due = DueTable(database)                                      # once in a process
    due.put(connection, WorkKind.END, question_id, user_id="ann", after=timedelta(hours=24))
    rows = due.take(connection, WorkKind.END, token=token)        # leased: each is due again after `LEASE`
    due.done(connection, row)                                     # False: another process has it now, so roll back
    due.postpone(connection, row, NOTICE_BACK_OFF, error="...")   # False likewise; the last try makes it stuck
    due.release(connection, rows)                                 # a process that stops gives them back
    due.remove(connection, WorkKind.END, question_id)             # an event has made it needless
    due.retry(connection, WorkKind.END, question_id)              # an operator makes stuck work due

A row names work and nothing that permits it: the worker reads and judges again. All times are those of the database.
`put` makes work due that is there already, and takes it from the worker that does it: what that one ends is older, so its
`done` changes nothing, and the new event is not lost.

Work that is due now gets a place behind the work of its own user, but not behind that of everybody (start-time fair queueing):
so the newest work of one user is among the next, however much of another's waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from graph_agent.db import Database, PreparedStatement, insert_into
from graph_agent.due.tables import due

LEASE = timedelta(seconds=20)
"""The time after which work that was taken is due again, unless it was ended: its process may be dead."""
TAKEN_AT_ONCE = 8
CLOCK_TOLERANCE = timedelta(minutes=1)
"""A time that was set later than this from now was set before the database's clock was set back."""
KEEP_STUCK = timedelta(days=30)
"""The time for which stuck work is kept, for an operator to retry: as long as a question after its end."""
_SPACING = timedelta(milliseconds=1)
"""The distance between the places of one user's work."""
_HORIZON = timedelta(seconds=1)
"""The last place of a user is not later than this from now, however much the user has."""


DUE_NOW = "due"
"""Announced in this process by each commit that makes work due at once, and by `wakeups` in the others."""


Lane = tuple[str, str]
"""A kind, and one of its lanes, or `ANY_LANE`."""
ANY_LANE = "*"
"""All lanes of a kind, for a process that does what those that serve a lane have left for `ANY_AFTER`."""
ANY_AFTER = timedelta(seconds=5)
"""The time for which work is left to the processes that serve its lane."""


class WorkKind(StrEnum):
    """The kinds of due work, and what their keys and lanes are."""

    DECIDE = "decide"
    """Judge an answered question. Its id; the digest of the rules under which it was asked, whose processes are first."""
    END = "end"
    """End a question. Its id; no lane."""
    NOTICE = "notice"
    """Post a notice to the webhook. The id of its question and its kind, ID.KIND; no lane."""
    SETTLE = "settle"
    """Learn the outcome of a call. DECISION:SEQUENCE; its tool."""
    DECISION = "decision"
    """Close a decision without a turn that was found left open. Its id; no lane."""
    JOB = "job"
    """Do the maintenance of the database. Its name; no lane."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """The waits between attempts: they double from `first` to `longest`. After so many `tries` the work is stuck."""

    first: timedelta
    longest: timedelta
    tries: int | None = None

    def wait(self, attempts: int) -> timedelta | None:
        """Return the wait after so many attempts, at least one; None after the last."""
        if self.tries is not None and attempts >= self.tries:
            return None
        return min(self.first * int(2 ** min(attempts - 1, 30)), self.longest)


@dataclass(frozen=True, slots=True)
class DueWork:
    """Work that was taken, until its lease ends."""

    kind: str
    key: str
    lane: str
    user_id: str
    attempts: int
    """The number of times it was taken since it was put, this one included."""
    token: str


class DueTable:
    """The statements of the table in one database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._now = database.time()
        self._put_now = PreparedStatement(lambda dialect: self._put(dialect, self._place(dialect)))

    def put(
        self,
        connection: Connection,
        kind: str,
        key: str,
        *,
        lane: str = "",
        user_id: str = "",
        after: timedelta = timedelta(),
    ) -> None:
        """Make work due `after` now, also if it is there already, is stuck, or is being done: it counts as not tried."""
        row = {"kind": kind, "key": key, "lane": lane, "user_id": user_id, "attempts": 0, "taken": None, "error": None}
        if after > timedelta():
            connection.execute(self._put(connection.dialect.name, self.database.time(after)), row).close()
        else:
            self._put_now.run(connection, row)
            self.database.announce(connection, DUE_NOW)

    def add(self, connection: Connection, kind: str, key: str, *, lane: str = "", user_id: str = "") -> None:
        """Make work due now, unless it is there already."""
        there = select(due.c.key).where(due.c.kind == kind, due.c.key == key)
        if connection.execute(there).first() is None:
            self.put(connection, kind, key, lane=lane, user_id=user_id)

    def add_each(self, connection: Connection, kind: str, users: Mapping[str, str]) -> None:
        """Make work due now for each key, with its user, unless it is there already."""
        for key, user_id in users.items():
            self.add(connection, kind, key, user_id=user_id)

    def absent(self, connection: Connection, kind: str, keys: Sequence[str]) -> list[str]:
        """Return those of `keys` for which there is no work, neither due nor stuck."""
        there = select(due.c.key).where(due.c.kind == kind, due.c.key.in_(keys))
        found = set(connection.execute(there).scalars())
        return [key for key in keys if key not in found]

    def take(
        self,
        connection: Connection,
        kind: str,
        lane: str = "",
        *,
        token: str,
        count: int = TAKEN_AT_ONCE,
        lease: timedelta = LEASE,
    ) -> list[DueWork]:
        """Take work that is due, the earliest first: it is due again after the lease, unless it is ended with this `token`.

        No two calls have the same token.
        """
        columns = (due.c.key, due.c.lane, due.c.user_id, due.c.attempts)
        is_due = (*_is_in(kind, lane), due.c.due_at <= (self.database.time(-ANY_AFTER) if lane == ANY_LANE else self._now))
        # In two statements: the planner may run a subquery with a limit more than once, and then it would lock more rows.
        wanted = select(*columns).where(*is_due).order_by(due.c.due_at).limit(count).with_for_update(skip_locked=True)
        found = connection.execute(wanted).all()
        if not found:
            return []
        taken = {"due_at": self.database.time(lease), "set_at": self._now, "attempts": due.c.attempts + 1, "taken": token}
        keys = [row.key for row in found]
        connection.execute(update(due).where(due.c.kind == kind, due.c.key.in_(keys)).values(taken)).close()
        return [DueWork(kind, row.key, row.lane, row.user_id, row.attempts + 1, token) for row in found]

    def done(self, connection: Connection, work: DueWork) -> bool:
        """Remove work that is done. False if it was taken by another worker or put again meanwhile: then it stays."""
        return connection.execute(delete(due).where(*_is(work))).rowcount == 1

    def postpone(self, connection: Connection, work: DueWork, wait: timedelta | BackOff | None, error: str = "") -> bool:
        """Make work due again after a time, or after that of its back-off. Without a further try it is stuck: see `retry`.

        `error` is a sentence of ours for operators. False as in `done`.
        """
        after = wait.wait(work.attempts) if isinstance(wait, BackOff) else wait
        at = None if after is None else self.database.time(after)
        later = {"due_at": at, "set_at": self._now, "taken": None, "error": error or None}
        return connection.execute(update(due).where(*_is(work)).values(later)).rowcount == 1

    def release(self, connection: Connection, works: Iterable[DueWork]) -> None:
        """Make work due now that was taken and not done; this was no attempt."""
        for work in works:
            back = {"due_at": self._now, "set_at": self._now, "taken": None, "attempts": due.c.attempts - 1}
            connection.execute(update(due).where(*_is(work)).values(back)).close()

    def renew(self, connection: Connection, works: Sequence[DueWork], lease: timedelta = LEASE) -> list[DueWork]:
        """Extend the leases of work that takes long; return the work that is lost."""
        longer = {"due_at": self.database.time(lease), "set_at": self._now}
        return [work for work in works if connection.execute(update(due).where(*_is(work)).values(longer)).rowcount != 1]

    def remove(self, connection: Connection, kind: str, *keys: str) -> None:
        """Remove work that is needless now, also if it is being done."""
        connection.execute(delete(due).where(due.c.kind == kind, due.c.key.in_(keys))).close()

    def remove_user(self, connection: Connection, user_id: str) -> int:
        """Remove the work of a user who is erased; return the number of rows."""
        return connection.execute(delete(due).where(due.c.user_id == user_id)).rowcount

    def retry(self, connection: Connection, kind: str, key: str) -> bool:
        """Make work due now as if it was not tried. False if there is none."""
        again = {"due_at": self._now, "set_at": self._now, "attempts": 0, "taken": None, "error": None}
        self.database.announce(connection, DUE_NOW)
        return connection.execute(update(due).where(due.c.kind == kind, due.c.key == key).values(again)).rowcount == 1

    def remove_stuck(self, connection: Connection) -> int:
        """Remove what has been stuck for longer than `KEEP_STUCK`; return the number of rows."""
        old = (due.c.due_at.is_(None), due.c.set_at < self.database.time(-KEEP_STUCK))
        return connection.execute(delete(due).where(*old)).rowcount

    def first_due(
        self, connection: Connection, lanes: Sequence[tuple[str, str]]
    ) -> tuple[datetime, dict[tuple[str, str], float]]:
        """Return the time, and in how many seconds the first work of each (kind, lane) is due, negative if it is late.

        A lane without work is left out. One statement, whose cost does not depend on the number of rows.
        """
        firsts = [select(func.min(due.c.due_at)).where(*_is_in(kind, lane)).scalar_subquery() for kind, lane in lanes]
        now, *found = connection.execute(select(self._now, *firsts)).one()
        times = {lane: at for lane, at in zip(lanes, found, strict=True) if at is not None}
        later = {lane: ANY_AFTER for lane in times if lane[1] == ANY_LANE}
        return now, {lane: (at + later.get(lane, timedelta()) - now).total_seconds() for lane, at in times.items()}

    def correct_after_step(self, connection: Connection) -> int:
        """Make due what was set before the database's clock was set back; return the number of rows. It reads all rows."""
        ahead = (due.c.set_at > self.database.time(CLOCK_TOLERANCE), due.c.due_at.is_not(None))
        return connection.execute(update(due).where(*ahead).values(due_at=self._now, set_at=self._now, taken=None)).rowcount

    def _put(self, dialect: str, at: Any) -> Any:
        columns = ("kind", "key", "lane", "user_id", "attempts", "taken", "error")
        row = {name: bindparam(name, type_=due.c[name].type) for name in columns}
        statement = insert_into(due, dialect).values(**row, due_at=at, set_at=self._now)
        changed = {column.name: statement.excluded[column.name] for column in due.columns if not column.primary_key}
        return statement.on_conflict_do_update(index_elements=["kind", "key"], set_=changed)

    def _place(self, dialect: str) -> Any:
        """Return the place of work that is due now: behind its user's own, else at the oldest place of its lane."""
        kind, key, lane, user = (bindparam(name, type_=due.c[name].type) for name in ("kind", "key", "lane", "user_id"))
        own = due.alias("own")
        is_own = (
            own.c.kind == kind,
            own.c.user_id == user,
            own.c.key != key,
            own.c.attempts == 0,
            own.c.due_at <= self.database.time(_HORIZON),
        )
        last = select(own.c.due_at).where(*is_own).order_by(own.c.due_at.desc()).limit(1).scalar_subquery()
        lanes = due.alias("lanes")
        oldest = select(func.min(lanes.c.due_at)).where(lanes.c.kind == kind, lanes.c.lane == lane).scalar_subquery()
        earlier = func.least if dialect == "postgresql" else func.min
        behind_own = self.database.shifted(last, _SPACING)
        return func.coalesce(behind_own, earlier(self._now, func.coalesce(oldest, self._now)))


def _is_in(kind: str, lane: str) -> tuple[Any, ...]:
    return (due.c.kind == kind,) if lane == ANY_LANE else (due.c.kind == kind, due.c.lane == lane)


def _is(work: DueWork) -> tuple[Any, ...]:
    return due.c.kind == work.kind, due.c.key == work.key, due.c.taken == work.token

"""The stops of a database: written by operators, and read in the commit that intends a call.

On PostgreSQL that commit takes a lock that it shares with others of its kind, and a new stop takes the same lock alone. So an
intention has committed before the stop, or it sees the stop: a read without the lock could be older than the stop's commit.
SQLite has one writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, insert, select, text, update

from graph_agent.db import Database, PreparedStatement
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.record import OperationState
from graph_agent.models.stop import Sending, Stop, StopScope
from graph_agent.record.metrics_hours import LONGEST_TURN
from graph_agent.record.tables import STOP_LOCK, call_operations, rule_stops
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.stated_stops import state_end, state_stops

T = TypeVar("T")

HOLDER_SECONDS = 0.3
"""For how long a stop or an activation waits for the transactions that intend calls before it ends them: each takes
milliseconds."""

_row = rule_stops.c
_COLUMNS = ("number", "scope", "name", "changes_only", "say", "reason", "made_by", "at", "ended_at", "ended_by", "end_reason")
_ALL = select(*(_row[name] for name in _COLUMNS), _row.mac).order_by(_row.number)
_OPEN = _ALL.where(_row.ended_at.is_(None))
_FIRST_OPEN = PreparedStatement(select(_row.number).where(_row.ended_at.is_(None)).limit(1))
_LOCK_AND_FIND = (
    f"SELECT pg_advisory_xact_lock_shared({STOP_LOCK}); SELECT number FROM rule_stops WHERE ended_at IS NULL LIMIT 1"
)
_call = call_operations.c
_UNDER_WAY = select(_call.decision_id, _call.tool_name, _call.user_id).where(
    _call.state == OperationState.INTENDED, _call.intended_at > bindparam("since")
)
_LOCK = text(f"SELECT pg_advisory_xact_lock({STOP_LOCK})")
_PID = text("SELECT pg_backend_pid()")
_END_HOLDERS = text("SELECT pg_terminate_backend(holder) FROM unnest(pg_blocking_pids(:waiting)) AS holder")


def find_open_stops(connection: Connection, *, locked: bool = False) -> list[Stop]:
    """Return the stops in force, oldest first. With `locked`, no new one is written until this transaction ends."""
    if locked and connection.dialect.name == "postgresql":
        # One query, for one round trip. Two statements: the snapshot of one alone would be older than the lock.
        cursor: Any = connection.connection.dbapi_connection.execute(_LOCK_AND_FIND)  # type: ignore[union-attr]  # psycopg's
        cursor.nextset()
        found = cursor.fetchone()
        cursor.close()
    else:
        found = _FIRST_OPEN.first(connection, {})
    # Nearly always there is none.
    return [] if found is None else [_stop(row) for row in connection.execute(_OPEN)]


def find_stops_since(connection: Connection, at: datetime) -> list[Stop]:
    """Return the stops that were made since a time, also those that have ended."""
    return [_stop(row) for row in connection.execute(_ALL.where(_row.at >= at))]


def list_stops(connection: Connection, limit: int | None = 100) -> list[Stop]:
    """Return the newest stops, oldest first, with those that have ended."""
    newest = select(_ALL.order_by(None).order_by(_row.number.desc()).limit(limit).subquery())
    return sorted((_stop(row) for row in connection.execute(newest)), key=lambda stop: stop.number)


def ended_without_mac(connection: Connection, sealer: Sealer) -> list[Stop]:
    """Return the stops whose end has no valid MAC: they go on."""
    rows = connection.execute(_ALL.where(_row.ended_at.is_not(None)))
    return [_stop(row) for row in rows if not _has_ended(row, sealer)]


def ended_rightly(connection: Connection, sealer: Sealer, numbers: Sequence[int]) -> set[int]:
    """Return those of `numbers` whose stops have ended with a valid MAC."""
    rows = connection.execute(_ALL.where(_row.number.in_(list(numbers))))
    return {row.number for row in rows if _has_ended(row, sealer)}


async def place_stop(database: Database, stop: Stop) -> Stop:
    """Store a stop, and return it with its number and time. From its commit on, nothing that it covers is intended any more.

    What hangs while it intends a call is ended, see `write_alone`: its call is not sent. The number and the time of `stop` are
    those of the database. Raises `DatabaseUnavailableError`.
    """
    values = {"scope": stop.scope, "name": stop.name, "changes_only": stop.changes_only, "say": stop.say}
    values |= {"reason": stop.reason, "made_by": stop.by}

    def write(connection: Connection) -> Stop:
        number = connection.execute(insert(rule_stops).returning(_row.number), values).scalar_one()
        return _stop(connection.execute(_ALL.where(_row.number == number)).one())

    return await write_alone(database, write)


async def write_alone(database: Database, work: Callable[[Connection], T]) -> T:
    """Run `work` in a transaction while no other one intends a call: what was intended before it has committed.

    One that hangs while it does, as one of a process that is frozen, is ended. Raises `DatabaseUnavailableError`.
    """
    waiting: list[int] = []

    def write(connection: Connection) -> T:
        if connection.dialect.name == "postgresql":
            waiting.append(connection.execute(_PID).scalar_one())
            connection.execute(_LOCK)
        return work(connection)

    def end_holders(connection: Connection) -> None:
        connection.execute(_END_HOLDERS, {"waiting": waiting[0]}).close()

    writing = asyncio.ensure_future(database.write(write))
    while not (await asyncio.wait({writing}, timeout=HOLDER_SECONDS))[0]:
        if waiting:
            await database.write(end_holders)
    return await writing


def calls_under_way(connection: Connection, stop: Stop) -> dict[str, set[str]]:
    """Return the decisions with calls that were intended before a stop, and have no answer yet, by the tools of the calls."""
    assert stop.at is not None
    found: dict[str, set[str]] = {}
    for row in connection.execute(_UNDER_WAY, {"since": stop.at - LONGEST_TURN}):
        if stop.scope is StopScope.SERVER or stop.covers(Sending(row.user_id, row.tool_name, changes=True)):
            found.setdefault(row.tool_name, set()).add(row.decision_id)
    return found


async def end_stop(database: Database, number: int, sealer: Sealer, *, by: str, reason: str) -> Stop:
    """End a stop, and state so in the log. Raises `ServiceError` STOP_NOT_FOUND, and `DatabaseUnavailableError`."""

    def end(connection: Connection) -> Stop:
        row = connection.execute(_ALL.where(_row.number == number).with_for_update()).one_or_none()
        if row is None or _has_ended(row, sealer):
            text = f"There is no stop {number}." if row is None else f"The stop {number} has ended already."
            raise ServiceError(ServiceErrorCode.STOP_NOT_FOUND, text)
        state_stops(connection, sealer)
        # By the database, as the time of the stop.
        now: datetime = connection.execute(select(database.time())).scalar_one()
        ended = _stop(row).replace(ended_at=now.astimezone(UTC), ended_by=by, end_reason=reason)
        values = {"ended_at": ended.ended_at, "ended_by": by, "end_reason": reason}
        connection.execute(update(rule_stops).where(_row.number == number), {**values, "mac": _macs(ended, sealer)[0]})
        state_end(connection, number, row.scope, now.astimezone(UTC), sealer)
        return ended

    return await database.write(end)


def _has_ended(row: Any, sealer: Sealer) -> bool:
    return row.ended_at is not None and row.mac in _macs(_stop(row), sealer)


def forget_user(connection: Connection, user_id: str) -> None:
    """Erase a user from stops: as the one who is stopped, with the reasons, and as an operator. The stops stay."""
    own = (_row.scope == StopScope.USER) & (_row.name == user_id)
    connection.execute(update(rule_stops).where(own), {"name": "", "say": "", "reason": "", "end_reason": ""})
    for column in (_row.made_by, _row.ended_by):
        connection.execute(update(rule_stops).where(column == user_id), {column.name: ""})


def _macs(stop: Stop, sealer: Sealer) -> list[str]:
    """Return the MACs of the end of a stop. They do not cover names, which are erased with their users."""
    ended_at = "" if stop.ended_at is None else stop.ended_at.isoformat(timespec="microseconds")
    return sealer.macs("resumed", stop.number, stop.scope, int(stop.changes_only), ended_at)


def _stop(row: Any) -> Stop:
    return Stop(
        number=row.number,
        scope=StopScope(row.scope),
        name=row.name,
        changes_only=row.changes_only,
        say=row.say,
        reason=row.reason,
        by=row.made_by,
        at=row.at,
        ended_at=row.ended_at,
        ended_by=row.ended_by or "",
        end_reason=row.end_reason or "",
    )

"""How many turns a user may begin in a minute, counted in the database and so over all replicas."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, case, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert

from graph_agent.chat.conversations.tables import turn_limits
from graph_agent.db import UtcDateTime
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.reply.fixed import RATE_LIMIT_REPLY

WINDOW = timedelta(minutes=1)


def _counted(insert: postgresql.Insert | sqlite.Insert) -> ReturningInsert[int, datetime]:
    """One more turn in the window that the user's first turn opened, or the first of a new one."""
    started = turn_limits.c.window_started_at
    # A window from the future is of a clock that was set back; it must not shut anybody out.
    over = or_(started <= bindparam("window_ended_at", type_=UtcDateTime), started > insert.excluded.window_started_at)
    return insert.on_conflict_do_update(
        index_elements=[turn_limits.c.user_id],
        set_={
            "window_started_at": case((over, insert.excluded.window_started_at), else_=started),
            "turns": case((over, 1), else_=turn_limits.c.turns + 1),
        },
    ).returning(turn_limits.c.turns, turn_limits.c.window_started_at)


_COUNTED = {
    "sqlite": _counted(sqlite.insert(turn_limits).values(turns=1)),
    "postgresql": _counted(postgresql.insert(turn_limits).values(turns=1)),
}


def count_turn(connection: Connection, user_id: str, now: datetime, allowed: int) -> None:
    """Count one turn of `user_id`.

    Raises `ServiceError` RATE_LIMITED, with the seconds until the window ends, where it is one too many; the caller's
    transaction is rolled back then, so a refused turn is not counted.
    """
    row = {"user_id": user_id, "window_started_at": now, "window_ended_at": now - WINDOW}
    turns, window_started_at = connection.execute(_COUNTED[connection.dialect.name], row).one()
    if turns > allowed:
        left = (window_started_at + WINDOW - now).total_seconds()
        raise ServiceError(ServiceErrorCode.RATE_LIMITED, RATE_LIMIT_REPLY, retry_after=max(1.0, left))

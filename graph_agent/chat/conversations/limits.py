"""The rate limit: turns that a user may start in a minute, counted in the database and therefore across replicas."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, Executable, bindparam, case, or_

from graph_agent.chat.conversations.tables import turn_limits
from graph_agent.db import UtcDateTime
from graph_agent.db.prepared import PreparedStatement, insert_into
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.reply.fixed import RATE_LIMIT_REPLY

WINDOW = timedelta(minutes=1)


def _count_statement(dialect: str) -> Executable:
    """Return the statement that counts a turn: in the current window, or as the first of a new window."""
    insert = insert_into(turn_limits, dialect).values(turns=1)
    started = turn_limits.c.window_started_at
    # A window that starts in the future comes from a clock that was set back since; it must not lock the user out.
    over = or_(started <= bindparam("window_ended_at", type_=UtcDateTime), started > insert.excluded.window_started_at)
    return insert.on_conflict_do_update(
        index_elements=[turn_limits.c.user_id],
        set_={
            "window_started_at": case((over, insert.excluded.window_started_at), else_=started),
            "turns": case((over, 1), else_=turn_limits.c.turns + 1),
        },
    ).returning(turn_limits.c.turns, turn_limits.c.window_started_at)


_COUNT = PreparedStatement(_count_statement)


def count_turn(connection: Connection, user_id: str, now: datetime, allowed: int) -> None:
    """Count one turn of `user_id`.

    Raises `ServiceError` RATE_LIMITED above the limit, with the seconds until the window ends. The exception rolls back the
    caller's transaction, so a refused turn is not counted.
    """
    row = {"user_id": user_id, "window_started_at": now, "window_ended_at": now - WINDOW}
    turns, window_started_at = _COUNT.first(connection, row)
    if turns > allowed:
        left = (window_started_at + WINDOW - now).total_seconds()
        raise ServiceError(ServiceErrorCode.RATE_LIMITED, RATE_LIMIT_REPLY, retry_after=max(1.0, left))

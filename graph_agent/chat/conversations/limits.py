"""The rate limit: turns that a user may start in a minute, counted in the database and therefore across replicas."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, case, or_

from graph_agent.chat.conversations.tables import turn_limits
from graph_agent.db import Database
from graph_agent.db.prepared import PreparedStatement, insert_into
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.reply.fixed import RATE_LIMIT_REPLY

WINDOW = timedelta(minutes=1)


class TurnLimit:
    """Counts the turns of each user, in windows by the database's clock."""

    def __init__(self, database: Database, allowed: int) -> None:
        """`allowed` is the number of turns in a window."""
        self._allowed = allowed
        now, one_window_ago = database.time(), database.time(-WINDOW)
        insert = insert_into(turn_limits, database.dialect).values(turns=1, window_started_at=now)
        started = turn_limits.c.window_started_at
        # A window that starts far in the future was begun before the clock was set back; it must not lock the user out.
        over = or_(started <= one_window_ago, started > database.time(WINDOW))
        update = {
            "window_started_at": case((over, now), else_=started),
            "turns": case((over, 1), else_=turn_limits.c.turns + 1),
        }
        counted = insert.on_conflict_do_update(index_elements=[turn_limits.c.user_id], set_=update)
        self._count = PreparedStatement(
            counted.returning(turn_limits.c.turns, turn_limits.c.window_started_at, one_window_ago.label("one_window_ago"))
        )

    def count(self, connection: Connection, user_id: str) -> None:
        """Count one turn of `user_id`.

        Raises `ServiceError` RATE_LIMITED above the limit, with the seconds until the window ends. The exception rolls back the
        caller's transaction, so a refused turn is not counted.
        """
        turns, window_started_at, one_window_ago = self._count.first(connection, {"user_id": user_id})
        if turns > self._allowed:
            left = (window_started_at - one_window_ago).total_seconds()
            raise ServiceError(ServiceErrorCode.RATE_LIMITED, RATE_LIMIT_REPLY, retry_after=max(1.0, left))

"""The schedule of the maintenance that the processes of a database share: one of them does it, once a minute."""

from __future__ import annotations

from graph_agent.chat.conversations import statements
from graph_agent.chat.conversations.limits import TurnLimit
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode

_MAINTENANCE = " "
"""Counted like the turns of a user. No user id is blank."""


class MaintenanceSchedule:
    """Gives the maintenance of each minute to the first process that asks for it.

    This is a row instead of an advisory lock, because a session lock has no owner behind PgBouncer in transaction mode, and a
    lock of a transaction would hold a connection as long as the maintenance takes. If the process dies, another one gets the
    next minute.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._limit = TurnLimit(database, 1)

    async def claim(self) -> bool:
        """Return True if the caller shall do the maintenance now. Raises `ServiceError` SERVICE_UNAVAILABLE."""
        try:
            await statements.write(self._database, lambda connection: self._limit.count(connection, _MAINTENANCE))
        except ServiceError as exc:
            if exc.code is ServiceErrorCode.RATE_LIMITED:
                return False
            raise
        return True

"""Used confirmations: each can be used for one decision."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.chat.conversations.tables import used_confirmations
from graph_agent.clock import SystemClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.db.prepared import insert_new
from graph_agent.errors import RecordUnavailableError
from graph_agent.ports import Clock


class ConfirmationStore:
    """`Confirmations` in the database, for decisions that belong to no chat. Each use is a commit."""

    def __init__(self, database: Database, *, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()

    async def consume(self, pending_id: str, decision_id: str) -> bool:
        """Use up `pending_id` for `decision_id`; see `Confirmations`. Raises `RecordUnavailableError`."""
        now = self._clock.now()
        try:
            return await self._database.write(lambda connection: use_up(connection, pending_id, decision_id, now))
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the confirmation cannot be marked as used") from exc


def use_up(connection: Connection, pending_id: str, decision_id: str, at: datetime) -> bool:
    """Use up `pending_id` for `decision_id`; False if another decision has."""
    insert_new(connection, used_confirmations, [{"pending_id": pending_id, "decision_id": decision_id, "used_at": at}])
    return used_by(connection, pending_id) == decision_id


def is_used(connection: Connection, pending_id: str, decision_id: str) -> bool:
    """True if a decision other than `decision_id` has used up `pending_id`."""
    return used_by(connection, pending_id) not in (None, decision_id)


def used_by(connection: Connection, pending_id: str) -> str | None:
    """Return the decision that has used up `pending_id`; None if there is none."""
    wanted = select(used_confirmations.c.decision_id).where(used_confirmations.c.pending_id == pending_id)
    decision_id: str | None = connection.execute(wanted).scalar_one_or_none()
    return decision_id

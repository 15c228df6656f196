"""Used confirmations: each can be used for one decision."""

from __future__ import annotations

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.chat.conversations.tables import used_confirmations
from graph_agent.clock import SystemClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.db.insert import insert_new
from graph_agent.errors import RecordUnavailableError
from graph_agent.ports import Clock


class ConfirmationStore:
    """`Confirmations` in the conversation database."""

    def __init__(self, database: Database, *, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()

    async def consume(self, pending_id: str, decision_id: str) -> bool:
        """Use up `pending_id` for `decision_id`; see `Confirmations`. Raises `RecordUnavailableError`."""
        row = {"pending_id": pending_id, "decision_id": decision_id, "used_at": self._clock.now()}

        def work(connection: Connection) -> bool:
            insert_new(connection, used_confirmations, [row])
            used_by = select(used_confirmations.c.decision_id).where(used_confirmations.c.pending_id == pending_id)
            return bool(connection.execute(used_by).scalar_one() == decision_id)

        try:
            return await self._database.write(work)
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the confirmation cannot be marked as used") from exc

"""Removal of rows that no request can need any more, a few in each transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Column, Connection, delete, select
from sqlalchemy.sql.elements import ColumnElement

from graph_agent.chat.conversations import statements
from graph_agent.chat.conversations.tables import (
    TurnState,
    asked_confirmations,
    conversations,
    messages,
    turn_limits,
    turns,
    used_confirmations,
)
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.ports import Clock

KEEP_TURNS = timedelta(days=30)
"""The time for which an answer is kept for a request that repeats its idempotency key."""
KEEP_CONFIRMATIONS = timedelta(days=1)
"""Much longer than a confirmation is valid, so that no expired one can be used again."""
KEEP_QUESTIONS = timedelta(days=30)
"""The time for which a late answer to a question still finds its conversation."""
BATCH = 200


class ConversationPruning:
    """Prunes turns with their keys and answers, used confirmations, and questions. Messages stay."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def prune(self) -> int:
        """Remove everything that is old enough; return the number of rows. Raises `ServiceError` SERVICE_UNAVAILABLE."""
        now = self._clock.now()
        return (
            await self._remove(turns.c.id, turns.c.created_at, now - KEEP_TURNS, turns.c.state == TurnState.DONE)
            + await self._remove(used_confirmations.c.pending_id, used_confirmations.c.used_at, now - KEEP_CONFIRMATIONS)
            + await self._remove(asked_confirmations.c.pending_id, asked_confirmations.c.expires_at, now - KEEP_QUESTIONS)
        )

    async def _remove(self, key: Column[str], at: Column[datetime], before: datetime, *also: ColumnElement[bool]) -> int:
        removed = 0
        while batch := await statements.write(self._database, _removal(key, at < before, *also)):
            removed += batch
        return removed


def erase_conversations(connection: Connection, user_id: str) -> int:
    """Remove the conversations, turns and questions of a user; return the number of conversations.

    Raises `ServiceError` VALIDATION_ERROR while a turn runs.
    """
    running = select(turns.c.id).where(turns.c.user_id == user_id, turns.c.state == TurnState.RUNNING)
    if connection.execute(running.limit(1)).first() is not None:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "A turn of the user is still running.")
    of_user = select(conversations.c.id).where(conversations.c.user_id == user_id)
    asked = select(asked_confirmations.c.pending_id).where(asked_confirmations.c.user_id == user_id)
    connection.execute(delete(used_confirmations).where(used_confirmations.c.pending_id.in_(asked)))
    connection.execute(delete(messages).where(messages.c.conversation_id.in_(of_user)))
    for table in (asked_confirmations, turns, turn_limits):
        connection.execute(delete(table).where(table.c.user_id == user_id))
    return connection.execute(delete(conversations).where(conversations.c.user_id == user_id)).rowcount


def _removal(key: Column[str], *conditions: ColumnElement[bool]) -> Callable[[Connection], int]:
    def work(connection: Connection) -> int:
        keys = list(connection.execute(select(key).where(*conditions).limit(BATCH)).scalars())
        if not keys:
            return 0
        return connection.execute(delete(key.table).where(key.in_(keys))).rowcount

    return work

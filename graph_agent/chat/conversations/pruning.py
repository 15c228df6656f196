"""Removal of rows that no request can need any more, a few in each transaction."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection, delete, select

from graph_agent.chat.conversations import tables
from graph_agent.db import Database, delete_pages
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.question.approvals import erase_questions, prune_questions

KEEP_TURNS = timedelta(days=30)
"""The time for which an answer is kept for a request that repeats its idempotency key."""


async def prune_conversations(database: Database, now: datetime) -> int:
    """Remove old turns with their keys and answers, questions, and approval requests; end questions that are late.

    Return the number of rows.

    Messages stay. Raises `ServiceError` SERVICE_UNAVAILABLE.
    """
    remove = partial(delete_pages, database.write)
    turns = tables.turns.c
    return await remove(
        turns.id, turns.created_at < now - KEEP_TURNS, turns.state == tables.TurnState.DONE
    ) + await prune_questions(database, now)


def erase_conversations(connection: Connection, user_id: str) -> int:
    """Remove the conversations, turns and questions of a user; return the number of conversations.

    Raises `ServiceError` VALIDATION_ERROR while a turn runs.
    """
    turns = tables.turns
    running = select(turns.c.id).where(turns.c.user_id == user_id, turns.c.state == tables.TurnState.RUNNING)
    if connection.execute(running.limit(1)).first() is not None:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "A turn of the user is still running.")
    of_user = select(tables.conversations.c.id).where(tables.conversations.c.user_id == user_id)
    erase_questions(connection, user_id)
    connection.execute(delete(tables.messages).where(tables.messages.c.conversation_id.in_(of_user)))
    for table in (turns, tables.turn_limits):
        connection.execute(delete(table).where(table.c.user_id == user_id))
    return connection.execute(delete(tables.conversations).where(tables.conversations.c.user_id == user_id)).rowcount

"""The stored confirmation questions. They give the state of the question that an answer by id names."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select

from graph_agent.chat.conversations.confirmations import used_by
from graph_agent.chat.conversations.tables import asked_confirmations, turns
from graph_agent.db.prepared import insert_new
from graph_agent.models.decision import AnswerState, DecisionType, PendingAction, ShownQuestion

_ANSWERED = frozenset({DecisionType.EXECUTE_PENDING, DecisionType.CANCEL_PENDING})


def store(connection: Connection, user_id: str, conversation_id: str, pending: PendingAction) -> None:
    """Store a question to the user. A question that is asked again is stored already."""
    row = {
        "pending_id": pending.id,
        "conversation_id": conversation_id,
        "user_id": user_id,
        "expires_at": pending.expires_at,
    }
    insert_new(connection, asked_confirmations, [row])


def conversation_of(connection: Connection, pending_id: str, user_id: str) -> str | None:
    """Return the conversation in which the user was asked the question `pending_id`; None if there was none."""
    table = asked_confirmations.c
    found = select(table.conversation_id).where(table.pending_id == pending_id, table.user_id == user_id)
    conversation_id: str | None = connection.execute(found).scalar_one_or_none()
    return conversation_id


def state_of(
    connection: Connection, pending_id: str, user_id: str, conversation_id: str, waiting: PendingAction | None, now: datetime
) -> AnswerState:
    """Return the state of the question `pending_id`; `waiting` is the action that waits in the conversation."""
    if waiting is not None and waiting.id == pending_id:
        return AnswerState.CURRENT if now < waiting.expires_at else AnswerState.EXPIRED
    table = asked_confirmations.c
    found = connection.execute(
        select(table.expires_at).where(
            table.pending_id == pending_id, table.user_id == user_id, table.conversation_id == conversation_id
        )
    ).one_or_none()
    if found is None:
        return AnswerState.UNKNOWN
    if _answered(connection, pending_id):
        return AnswerState.USED
    return AnswerState.SUPERSEDED if now < found.expires_at else AnswerState.EXPIRED


def shown_question(
    connection: Connection, conversation_id: str, waiting: PendingAction | None, now: datetime
) -> ShownQuestion | None:
    """Return the question that a client shows that does not say which: None if it can only be the one that is `waiting`.

    A question that was replaced and has not expired may still be on the screen.
    """
    if waiting is None:
        return None
    table = asked_confirmations.c
    found = select(table.pending_id).where(
        table.conversation_id == conversation_id, table.pending_id != waiting.id, table.expires_at > now
    )
    others = connection.execute(found).scalars().all()
    return None if all(_answered(connection, pending_id) for pending_id in others) else ShownQuestion()


def _answered(connection: Connection, pending_id: str) -> bool:
    """True if a turn used the question up by a yes or a no; a new request uses it up as well, but answers nothing."""
    decision_id = used_by(connection, pending_id)
    if decision_id is None:
        return False
    answer = connection.execute(select(turns.c.answer).where(turns.c.id == decision_id)).scalar_one_or_none()
    return answer is not None and answer["decision"]["decision_type"] in _ANSWERED

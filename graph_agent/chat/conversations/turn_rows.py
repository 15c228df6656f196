"""The statements on turns and their messages, which are compiled once, and the claimed turn that they return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, insert, select, update

from graph_agent.chat.conversations.tables import TurnState, conversations, messages, turns
from graph_agent.db.prepared import PreparedStatement, insert_into
from graph_agent.models.decision import MAX_HISTORY_MESSAGES, Message, PendingAction
from graph_agent.record.tables import decision_logs

CLAIM = PreparedStatement(lambda dialect: insert_into(turns, dialect).on_conflict_do_nothing().returning(turns.c.id))
INSERT_CONVERSATION = PreparedStatement(insert(conversations))
INSERT_MESSAGE = PreparedStatement(insert(messages))

_BY_ID = turns.c.id == bindparam("turn")
_CLAIMED = _BY_ID & (turns.c.attempt == bindparam("claimed_attempt")) & (turns.c.state == TurnState.RUNNING)
"""Matches the turn only while this attempt of it is running."""

IS_CLAIMED = PreparedStatement(select(turns.c.id).where(_CLAIMED).with_for_update(read=True))
"""FOR SHARE, so that on PostgreSQL another process cannot take the turn over before this transaction ends."""
FIND = select(turns).where(_BY_ID)
FIND_SAME_REQUEST = select(turns).where(turns.c.user_id == bindparam("user"), turns.c.idem_key == bindparam("key"))
FIND_RUNNING = select(turns).where(turns.c.conversation_id == bindparam("conversation"), turns.c.state == TurnState.RUNNING)
FIND_ANSWER = select(turns.c.answer).where(_BY_ID, turns.c.state == TurnState.DONE)
EXPIRED = (turns.c.lease_until <= bindparam("now")) | (turns.c.lease_until > bindparam("longest"))
"""A lease longer than the longest possible one comes from a clock that was wrong: it counts as expired."""
TAKE_OVER = (
    update(turns)
    .where(_CLAIMED, EXPIRED)
    .values(owner=bindparam("new_owner"), attempt=bindparam("new_attempt"), lease_until=bindparam("new_lease"))
)
RENEW = update(turns).where(_CLAIMED).values(lease_until=bindparam("new_lease")).returning(turns.c.stopped)
STOP = (
    update(turns).where(_BY_ID, turns.c.user_id == bindparam("user"), turns.c.state == TurnState.RUNNING).values(stopped=True)
)
EXPIRE = update(turns).where(_CLAIMED).values(lease_until=bindparam("now"))
ANSWER = PreparedStatement(update(turns).where(_CLAIMED).values(state=TurnState.DONE, answer=bindparam("given")))

HISTORY = (
    select(messages.c.role, messages.c.content, messages.c.created_at, messages.c.decision_type)
    .where(messages.c.conversation_id == bindparam("conversation"))
    .order_by(messages.c.number.desc())
    .limit(MAX_HISTORY_MESSAGES)
)
TOUCH_CONVERSATION = PreparedStatement(
    update(conversations).where(conversations.c.id == bindparam("conversation")).values(updated_at=bindparam("now"))
)
UPDATE_CONVERSATION = PreparedStatement(
    update(conversations)
    .where(conversations.c.id == bindparam("conversation"))
    .values(pending=bindparam("waiting"), updated_at=bindparam("now"))
)

_WITHOUT_RECORD = (_BY_ID, ~exists().where(decision_logs.c.decision_id == turns.c.id))
_DELETE = delete(turns).where(*_WITHOUT_RECORD)
_DELETE_MESSAGES = delete(messages).where(messages.c.decision_id == bindparam("turn"))
_DELETE_IF_EMPTY = delete(conversations).where(
    conversations.c.id == bindparam("conversation"), ~exists().where(messages.c.conversation_id == conversations.c.id)
)


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """A turn that this process has claimed until its lease expires."""

    decision_id: str
    user_id: str
    conversation_id: str
    attempt: int

    @property
    def key(self) -> dict[str, Any]:
        """The parameters that identify this attempt of the turn in the statements."""
        return {"turn": self.decision_id, "claimed_attempt": self.attempt, "conversation": self.conversation_id}


def delete_without_record(connection: Connection, turn: ClaimedTurn) -> bool:
    """Delete a turn that has no record, with its message; True if it had none.

    Only processes of versions that wrote the opening row after the claim could leave such a turn. Nothing was called for it.
    """
    if connection.execute(_DELETE, turn.key).rowcount != 1:
        return False
    connection.execute(_DELETE_MESSAGES, turn.key)
    connection.execute(_DELETE_IF_EMPTY, turn.key)
    return True


def history(connection: Connection, conversation_id: str) -> list[Message]:
    """Return the last messages of a conversation, oldest first."""
    rows = connection.execute(HISTORY, {"conversation": conversation_id}).all()
    return [
        Message(role=row.role.value, content=row.content, timestamp=row.created_at, decision_type=row.decision_type)
        for row in reversed(rows)
    ]


def pending_action(stored: Any) -> PendingAction | None:
    return None if stored is None else PendingAction.model_validate(stored)


def stored_answer(connection: Connection, decision_id: str) -> dict[str, Any] | None:
    """Return the answer of a turn; None if it has none."""
    answer: dict[str, Any] | None = connection.execute(FIND_ANSWER, {"turn": decision_id}).scalar_one_or_none()
    return answer

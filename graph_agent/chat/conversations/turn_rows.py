"""The statements on turns, their messages and their limit, which are compiled once, and the claimed turn that they return."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, exists, insert, or_, select, update

from graph_agent.chat.conversations.tables import TurnState, conversations, messages, turn_limits, turns
from graph_agent.db import Database
from graph_agent.db.prepared import PreparedStatement, insert_into
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import MAX_HISTORY_MESSAGES, Message
from graph_agent.record.tables import decision_logs
from graph_agent.reply.fixed import RATE_LIMIT_REPLY

LIMIT_WINDOW = timedelta(minutes=1)

INSERT_CONVERSATION = PreparedStatement(insert(conversations))
INSERT_MESSAGE = PreparedStatement(insert(messages))

_BY_ID = turns.c.id == bindparam("turn")
_CLAIMED = _BY_ID & (turns.c.attempt == bindparam("claimed_attempt")) & (turns.c.state == TurnState.RUNNING)
"""Matches the turn only while this attempt of it is running."""

IS_CLAIMED = PreparedStatement(select(turns.c.id).where(_CLAIMED).with_for_update(read=True))
"""FOR SHARE, so that on PostgreSQL another process cannot take the turn over before this transaction ends."""
FIND = select(turns).where(_BY_ID)
FIND_ANSWER = select(turns.c.answer).where(_BY_ID, turns.c.state == TurnState.DONE)
STOP = (
    update(turns).where(_BY_ID, turns.c.user_id == bindparam("user"), turns.c.state == TurnState.RUNNING).values(stopped=True)
)
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


class LeaseStatements:
    """The statements that set or compare leases: by the database's clock alone, since the clocks of the hosts differ."""

    def __init__(self, database: Database, lease: timedelta) -> None:
        now, end = database.time(), database.time(lease)
        # A lease that ends much later than a new one was set before the database's clock was set back.
        expired = (turns.c.lease_until <= now) | (turns.c.lease_until > database.time(2 * lease))
        running = turns.c.state == TurnState.RUNNING
        new = insert_into(turns, database.dialect).values(lease_until=end)
        self.claim = PreparedStatement(new.on_conflict_do_nothing().returning(turns.c.id))
        self.take_over = (
            update(turns)
            .where(_CLAIMED, expired)
            .values(owner=bindparam("new_owner"), attempt=bindparam("new_attempt"), lease_until=end)
        )
        self.renew = update(turns).where(_CLAIMED).values(lease_until=end).returning(turns.c.stopped)
        self.expire = update(turns).where(_CLAIMED).values(lease_until=now)
        found = select(turns, expired.label("expired"))
        self.find_same_request = found.where(turns.c.user_id == bindparam("user"), turns.c.idem_key == bindparam("key"))
        self.find_running = found.where(turns.c.conversation_id == bindparam("conversation"), running)
        self.find_abandoned = select(turns.c.id, turns.c.attempt).where(running, expired).order_by(turns.c.lease_until)


class TurnLimit:
    """The rate limit: counts the turns of each user in windows by the database's clock, and therefore across replicas."""

    def __init__(self, database: Database) -> None:
        now, one_window_ago = database.time(), database.time(-LIMIT_WINDOW)
        new = insert_into(turn_limits, database.dialect).values(turns=1, window_started_at=now)
        started = turn_limits.c.window_started_at
        # A window that starts far in the future was begun before the clock was set back; it must not lock the user out.
        over = or_(started <= one_window_ago, started > database.time(LIMIT_WINDOW))
        changes = {
            "window_started_at": case((over, now), else_=started),
            "turns": case((over, 1), else_=turn_limits.c.turns + 1),
        }
        counted = new.on_conflict_do_update(index_elements=[turn_limits.c.user_id], set_=changes)
        self._count = PreparedStatement(
            counted.returning(turn_limits.c.turns, turn_limits.c.window_started_at, one_window_ago.label("one_window_ago"))
        )

    def count(self, connection: Connection, user_id: str, allowed: int) -> None:
        """Count one turn of `user_id`, who may start `allowed` turns in a window.

        Raises `ServiceError` RATE_LIMITED above the limit, with the seconds until the window ends. The exception rolls back the
        caller's transaction, so a refused turn is not counted.
        """
        number, window_started_at, one_window_ago = self._count.first(connection, {"user_id": user_id})
        if number > allowed:
            left = (window_started_at - one_window_ago).total_seconds()
            raise ServiceError(ServiceErrorCode.RATE_LIMITED, RATE_LIMIT_REPLY, retry_after=max(1.0, left))


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


def stored_answer(connection: Connection, decision_id: str) -> dict[str, Any] | None:
    """Return the answer of a turn; None if it has none."""
    answer: dict[str, Any] | None = connection.execute(FIND_ANSWER, {"turn": decision_id}).scalar_one_or_none()
    return answer

"""The statements on turns and their messages, compiled once, and the functions that run them in a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, exists, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from graph_agent.chat.conversations.tables import Role, TurnState, conversations, messages, turns
from graph_agent.models.decision import (
    MAX_HISTORY_MESSAGES,
    AnswerState,
    ConfirmationAnswer,
    DecisionType,
    Message,
    PendingAction,
)

_CLAIM = {
    "sqlite": sqlite.insert(turns).on_conflict_do_nothing().returning(turns.c.id),
    "postgresql": postgresql.insert(turns).on_conflict_do_nothing().returning(turns.c.id),
}
_INSERT_CONVERSATION = insert(conversations)
_INSERT_MESSAGE = insert(messages)

_BY_ID = turns.c.id == bindparam("turn")
_CLAIMED = _BY_ID & (turns.c.attempt == bindparam("claimed_attempt")) & (turns.c.state == TurnState.RUNNING)
"""Matches the turn only while this attempt of it is running."""

_FIND = select(turns).where(_BY_ID)
_FIND_SAME_REQUEST = select(turns).where(turns.c.user_id == bindparam("user"), turns.c.idem_key == bindparam("key"))
_FIND_RUNNING = select(turns).where(turns.c.conversation_id == bindparam("conversation"), turns.c.state == TurnState.RUNNING)
_FIND_ANSWER = select(turns.c.answer).where(_BY_ID, turns.c.state == TurnState.DONE)
_EXPIRED = (turns.c.lease_until <= bindparam("now")) | (turns.c.lease_until > bindparam("longest"))
"""A lease longer than the longest possible one comes from a clock that was wrong: it counts as expired."""
_TAKE_OVER = (
    update(turns)
    .where(_CLAIMED, _EXPIRED)
    .values(owner=bindparam("new_owner"), attempt=bindparam("new_attempt"), lease_until=bindparam("new_lease"))
)
_RENEW = update(turns).where(_CLAIMED).values(lease_until=bindparam("new_lease"))
_EXPIRE = update(turns).where(_CLAIMED).values(lease_until=bindparam("now"))
_ANSWER = update(turns).where(_CLAIMED).values(state=TurnState.DONE, answer=bindparam("given"))
_DELETE = delete(turns).where(_CLAIMED)

_MESSAGE_OF_TURN = select(messages.c.number, messages.c.content).where(
    messages.c.decision_id == bindparam("turn"), messages.c.role == Role.USER
)
_HISTORY = (
    select(messages.c.role, messages.c.content, messages.c.created_at, messages.c.decision_type)
    .where(messages.c.conversation_id == bindparam("conversation"), messages.c.number < bindparam("before"))
    .order_by(messages.c.number.desc())
    .limit(MAX_HISTORY_MESSAGES)
)
_DELETE_MESSAGES = delete(messages).where(messages.c.decision_id == bindparam("turn"))
_PENDING = select(conversations.c.pending).where(conversations.c.id == bindparam("conversation"))
_UPDATE_CONVERSATION = (
    update(conversations)
    .where(conversations.c.id == bindparam("conversation"))
    .values(pending=bindparam("waiting"), updated_at=bindparam("now"))
)
_DELETE_IF_EMPTY = delete(conversations).where(
    conversations.c.id == bindparam("conversation"), ~exists().where(messages.c.conversation_id == conversations.c.id)
)

_NEWEST = 2**62
"""Greater than every message number."""


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """A turn that this process has claimed until its lease expires, with the contents of its `DecisionContext`."""

    decision_id: str
    user_id: str
    conversation_id: str
    attempt: int
    content: str
    history: tuple[Message, ...]
    pending: PendingAction | None
    answers: ConfirmationAnswer | None = None

    @property
    def keeps_pending(self) -> bool:
        """True if the user answered another question than the one that is waiting: that one stays."""
        return self.answers is not None and self.answers.state is not AnswerState.CURRENT

    @property
    def key(self) -> dict[str, Any]:
        """The parameters that identify this attempt of the turn in the statements."""
        return {"turn": self.decision_id, "claimed_attempt": self.attempt, "conversation": self.conversation_id}


def insert_conversation(connection: Connection, row: dict[str, Any]) -> None:
    connection.execute(_INSERT_CONVERSATION, row)


def insert_turn(connection: Connection, row: dict[str, Any]) -> bool:
    """Insert a running turn; False if a turn with the same key, or a running one of the conversation, exists."""
    return connection.execute(_CLAIM[connection.dialect.name], row).one_or_none() is not None


def insert_message(connection: Connection, row: dict[str, Any]) -> None:
    connection.execute(_INSERT_MESSAGE, row)


def history(connection: Connection, conversation_id: str, before: int = _NEWEST) -> tuple[Message, ...]:
    """Return the last messages of a conversation, oldest first."""
    rows = connection.execute(_HISTORY, {"conversation": conversation_id, "before": before}).all()
    return tuple(_message(*row) for row in reversed(rows))


def conflicting_turn(
    connection: Connection, user_id: str, idem_key: str | None, conversation_id: str | None
) -> Row[Any] | None:
    """Return the turn that prevents a claim: the same request, or the running turn of its conversation."""
    if idem_key is not None:
        found = connection.execute(_FIND_SAME_REQUEST, {"user": user_id, "key": idem_key}).one_or_none()
        if found is not None:
            return found
    if conversation_id is None:
        return None
    return connection.execute(_FIND_RUNNING, {"conversation": conversation_id}).one_or_none()


def take_over(
    connection: Connection, decision_id: str, attempt: int, *, owner: str, now: datetime, lease_until: datetime
) -> ClaimedTurn | None:
    """Claim the next attempt of a turn; None if this attempt is no longer running, or its lease has not expired."""
    lease = {"new_owner": owner, "new_attempt": attempt + 1, "new_lease": lease_until}
    attempted = {"turn": decision_id, "claimed_attempt": attempt, "now": now, "longest": lease_until}
    if connection.execute(_TAKE_OVER, {**attempted, **lease}).rowcount != 1:
        return None
    turn = connection.execute(_FIND, {"turn": decision_id}).one()
    number, content = connection.execute(_MESSAGE_OF_TURN, {"turn": decision_id}).one()
    pending = connection.execute(_PENDING, {"conversation": turn.conversation_id}).scalar_one()
    return ClaimedTurn(
        decision_id=decision_id,
        user_id=turn.user_id,
        conversation_id=turn.conversation_id,
        attempt=turn.attempt,
        content=content,
        history=history(connection, turn.conversation_id, number),
        pending=pending_action(pending),
        answers=None if turn.answers is None else ConfirmationAnswer.model_validate(turn.answers),
    )


def complete(
    connection: Connection, turn: ClaimedTurn, given: dict[str, Any], message: dict[str, Any], waiting: Any, now: datetime
) -> bool:
    """Store answer, assistant's message and pending action; False, and store nothing, if the claim was lost."""
    if connection.execute(_ANSWER, {**turn.key, "given": given}).rowcount != 1:
        return False
    connection.execute(_INSERT_MESSAGE, message)
    connection.execute(_UPDATE_CONVERSATION, {"conversation": turn.conversation_id, "waiting": waiting, "now": now})
    return True


def find_answer(connection: Connection, decision_id: str) -> dict[str, Any] | None:
    """Return the answer of a turn; None if it has none."""
    found: dict[str, Any] | None = connection.execute(_FIND_ANSWER, {"turn": decision_id}).scalar_one_or_none()
    return found


def delete_turn(connection: Connection, turn: ClaimedTurn) -> None:
    """Delete a claimed turn with its message, and its conversation if that is then empty."""
    if connection.execute(_DELETE, turn.key).rowcount == 1:
        connection.execute(_DELETE_MESSAGES, turn.key)
        connection.execute(_DELETE_IF_EMPTY, turn.key)


def renew(connection: Connection, claimed: Sequence[ClaimedTurn], lease_until: datetime) -> set[str]:
    """Renew the leases of these attempts; return the ids of those that are still running."""
    renewed = set()
    for turn in claimed:
        if connection.execute(_RENEW, {**turn.key, "new_lease": lease_until}).rowcount == 1:
            renewed.add(turn.decision_id)
    return renewed


def expire(connection: Connection, turn: ClaimedTurn, now: datetime) -> None:
    connection.execute(_EXPIRE, {**turn.key, "now": now})


def abandoned(connection: Connection, now: datetime, lease: timedelta, limit: int) -> list[tuple[str, int]]:
    """Return id and attempt of the running turns whose lease has expired, oldest first."""
    wanted = select(turns.c.id, turns.c.attempt).where(turns.c.state == TurnState.RUNNING, _EXPIRED)
    found = connection.execute(wanted.order_by(turns.c.lease_until).limit(limit), {"now": now, "longest": now + lease})
    return [(row.id, row.attempt) for row in found]


def running(connection: Connection, decision_ids: Sequence[str]) -> set[str]:
    """Return those of `decision_ids` that are running turns."""
    wanted = select(turns.c.id).where(turns.c.id.in_(list(decision_ids)), turns.c.state == TurnState.RUNNING)
    return set(connection.execute(wanted).scalars())


def count_running(connection: Connection, owner: str) -> int:
    """Return the number of running turns of an owner."""
    wanted = select(func.count()).select_from(turns).where(turns.c.owner == owner, turns.c.state == TurnState.RUNNING)
    return connection.execute(wanted).scalar_one()


def pending_action(stored: Any) -> PendingAction | None:
    return None if stored is None else PendingAction.model_validate(stored)


def _message(role: Role, content: str, created_at: datetime, decision_type: DecisionType | None) -> Message:
    return Message(role=role.value, content=content, timestamp=created_at, decision_type=decision_type)

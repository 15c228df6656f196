"""The rows of turns: statements made once, and what one transaction does with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, exists, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from graph_agent.chat.conversations.tables import Role, TurnState, conversations, messages, turns
from graph_agent.models.decision import MAX_HISTORY_MESSAGES, Message, PendingAction

_GIVES_WAY = {
    "sqlite": sqlite.insert(turns).on_conflict_do_nothing().returning(turns.c.id),
    "postgresql": postgresql.insert(turns).on_conflict_do_nothing().returning(turns.c.id),
}
_NEW_CONVERSATION = insert(conversations)
_NEW_MESSAGE = insert(messages)

_THE_TURN = turns.c.id == bindparam("turn")
_HELD = _THE_TURN & (turns.c.attempt == bindparam("held_attempt")) & (turns.c.state == TurnState.RUNNING)
"""The turn, as long as this attempt of it runs."""

_FIND = select(turns).where(_THE_TURN)
_FIND_SAME_REQUEST = select(turns).where(turns.c.user_id == bindparam("user"), turns.c.idem_key == bindparam("key"))
_FIND_RUNNING = select(turns).where(turns.c.conversation_id == bindparam("conversation"), turns.c.state == TurnState.RUNNING)
_FIND_ANSWER = select(turns.c.answer).where(_THE_TURN, turns.c.state == TurnState.DONE)
_TAKE_OVER = (
    update(turns)
    .where(_HELD, turns.c.lease_until <= bindparam("now"))
    .values(owner=bindparam("new_owner"), attempt=bindparam("new_attempt"), lease_until=bindparam("new_lease"))
)
_END_LEASE = update(turns).where(_HELD).values(lease_until=bindparam("now"))
_ANSWER = update(turns).where(_HELD).values(state=TurnState.DONE, answer=bindparam("given"))
_FORGET = delete(turns).where(_HELD)

_MESSAGE_OF_TURN = select(messages.c.number, messages.c.content).where(
    messages.c.decision_id == bindparam("turn"), messages.c.role == Role.USER
)
_HISTORY = (
    select(messages.c.role, messages.c.content, messages.c.created_at)
    .where(messages.c.conversation_id == bindparam("conversation"), messages.c.number < bindparam("before"))
    .order_by(messages.c.number.desc())
    .limit(MAX_HISTORY_MESSAGES)
)
_FORGET_MESSAGES = delete(messages).where(messages.c.decision_id == bindparam("turn"))
_PENDING = select(conversations.c.pending).where(conversations.c.id == bindparam("conversation"))
_MOVE_ON = (
    update(conversations)
    .where(conversations.c.id == bindparam("conversation"))
    .values(pending=bindparam("waiting"), updated_at=bindparam("now"))
)
_FORGET_EMPTY = delete(conversations).where(
    conversations.c.id == bindparam("conversation"), ~exists().where(messages.c.conversation_id == conversations.c.id)
)

_NEWEST = 2**62
"""A message number that is never reached."""


@dataclass(frozen=True, slots=True)
class HeldTurn:
    """A running turn that is ours until its lease ends, with everything its context is made from."""

    decision_id: str
    user_id: str
    conversation_id: str
    attempt: int
    content: str
    history: tuple[Message, ...]
    pending: PendingAction | None

    @property
    def place(self) -> dict[str, Any]:
        """Where this attempt of the turn stands, for the statements."""
        return {"turn": self.decision_id, "held_attempt": self.attempt, "conversation": self.conversation_id}


def begin_conversation(connection: Connection, row: dict[str, Any]) -> None:
    connection.execute(_NEW_CONVERSATION, row)


def begin(connection: Connection, row: dict[str, Any]) -> bool:
    """Insert a running turn; False where a turn stands that excludes it."""
    return connection.execute(_GIVES_WAY[connection.dialect.name], row).one_or_none() is not None


def add_message(connection: Connection, row: dict[str, Any]) -> None:
    connection.execute(_NEW_MESSAGE, row)


def history(connection: Connection, conversation_id: str, before: int = _NEWEST) -> tuple[Message, ...]:
    """The last messages of a conversation, oldest first."""
    rows = connection.execute(_HISTORY, {"conversation": conversation_id, "before": before}).all()
    return tuple(_message(*row) for row in reversed(rows))


def standing(connection: Connection, user_id: str, idem_key: str | None, conversation_id: str | None) -> Row[Any] | None:
    """The turn that a request gives way to: the same request, or what runs in its conversation."""
    if idem_key is not None:
        found = connection.execute(_FIND_SAME_REQUEST, {"user": user_id, "key": idem_key}).one_or_none()
        if found is not None:
            return found
    if conversation_id is None:
        return None
    return connection.execute(_FIND_RUNNING, {"conversation": conversation_id}).one_or_none()


def take_over(
    connection: Connection, decision_id: str, attempt: int, *, owner: str, now: datetime, lease_until: datetime
) -> HeldTurn | None:
    """The turn as its next attempt; None if this attempt does not run any more, or its lease has not ended."""
    lease = {"new_owner": owner, "new_attempt": attempt + 1, "new_lease": lease_until}
    held = {"turn": decision_id, "held_attempt": attempt, "now": now}
    if connection.execute(_TAKE_OVER, {**held, **lease}).rowcount != 1:
        return None
    turn = connection.execute(_FIND, {"turn": decision_id}).one()
    number, content = connection.execute(_MESSAGE_OF_TURN, {"turn": decision_id}).one()
    pending = connection.execute(_PENDING, {"conversation": turn.conversation_id}).scalar_one()
    return HeldTurn(
        decision_id=decision_id,
        user_id=turn.user_id,
        conversation_id=turn.conversation_id,
        attempt=turn.attempt,
        content=content,
        history=history(connection, turn.conversation_id, number),
        pending=waiting_action(pending),
    )


def answer(
    connection: Connection, turn: HeldTurn, given: dict[str, Any], message: dict[str, Any], waiting: Any, now: datetime
) -> bool:
    """Write answer, assistant's message and waiting action; False, and nothing is written, if the turn is not ours now."""
    if connection.execute(_ANSWER, {**turn.place, "given": given}).rowcount != 1:
        return False
    connection.execute(_NEW_MESSAGE, message)
    connection.execute(_MOVE_ON, {"conversation": turn.conversation_id, "waiting": waiting, "now": now})
    return True


def find_answer(connection: Connection, decision_id: str) -> dict[str, Any] | None:
    """The answer of a turn, if it is done."""
    found: dict[str, Any] | None = connection.execute(_FIND_ANSWER, {"turn": decision_id}).scalar_one_or_none()
    return found


def forget(connection: Connection, turn: HeldTurn) -> None:
    """Remove a turn that is ours, with its message, and its conversation if nothing else is in it."""
    if connection.execute(_FORGET, turn.place).rowcount == 1:
        connection.execute(_FORGET_MESSAGES, turn.place)
        connection.execute(_FORGET_EMPTY, turn.place)


def end_lease(connection: Connection, turn: HeldTurn, now: datetime) -> None:
    connection.execute(_END_LEASE, {**turn.place, "now": now})


def abandoned(connection: Connection, now: datetime, limit: int) -> list[tuple[str, int]]:
    """Id and attempt of running turns whose lease has ended, oldest first."""
    wanted = select(turns.c.id, turns.c.attempt).where(turns.c.state == TurnState.RUNNING, turns.c.lease_until <= now)
    return [(row.id, row.attempt) for row in connection.execute(wanted.order_by(turns.c.lease_until).limit(limit))]


def running(connection: Connection, decision_ids: Sequence[str]) -> set[str]:
    """Those of `decision_ids` that are running turns."""
    wanted = select(turns.c.id).where(turns.c.id.in_(list(decision_ids)), turns.c.state == TurnState.RUNNING)
    return set(connection.execute(wanted).scalars())


def waiting_action(stored: Any) -> PendingAction | None:
    return None if stored is None else PendingAction.model_validate(stored)


def _message(role: Role, content: str, created_at: datetime) -> Message:
    return Message(role=role.value, content=content, timestamp=created_at)

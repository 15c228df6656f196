"""The confirmations: the questions that users were asked, and which of them are used up.

Each can be used for one decision. The stored questions give the state of the question that an answer by id names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, case, select, update
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.chat.conversations.tables import (
    QuestionState,
    asked_confirmations,
    conversations,
    messages,
    turns,
    used_confirmations,
)
from graph_agent.clock import SystemClock
from graph_agent.db import Database, DatabaseUnavailableError, insert_new
from graph_agent.errors import RecordUnavailableError
from graph_agent.models.decision import AgentDecision, AnswerState, DecisionType, PendingAction, ShownQuestion
from graph_agent.ports import Clock

_ANSWERED = frozenset({DecisionType.EXECUTE_PENDING, DecisionType.CANCEL_PENDING})


_OF_CONVERSATION = messages.c.conversation_id == bindparam("conversation")
_CLOSE_QUESTION = (
    update(messages)
    .where(_OF_CONVERSATION, messages.c.question_id == bindparam("pending"))
    .values(question_state=bindparam("answer"))
)
_CLOSE_OTHERS = (
    update(messages)
    .where(_OF_CONVERSATION, messages.c.question_state == QuestionState.OPEN, messages.c.question_id != bindparam("waiting"))
    .values(
        question_state=case(
            (messages.c.question_expires_at <= bindparam("now"), QuestionState.EXPIRED), else_=QuestionState.SUPERSEDED
        )
    )
)


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
    return _used_by(connection, pending_id) == decision_id


def is_used(connection: Connection, pending_id: str, decision_id: str) -> bool:
    """True if a decision other than `decision_id` has used up `pending_id`."""
    return _used_by(connection, pending_id) not in (None, decision_id)


def store_question(
    connection: Connection, user_id: str, conversation_id: str, pending: PendingAction, files: Mapping[str, str]
) -> None:
    """Store a question to the user, with the files of this process. A question that is asked again is stored already."""
    row = {"pending_id": pending.id, "conversation_id": conversation_id, "user_id": user_id, "expires_at": pending.expires_at}
    insert_new(connection, asked_confirmations, [{**row, "files": dict(files)}])


def asked_in_message(pending: PendingAction | None) -> dict[str, Any]:
    """Return the columns of the message that asks about an action; None if it asks nothing."""
    if pending is None:
        return {"question_id": None, "question_expires_at": None, "question_state": None}
    return {"question_id": pending.id, "question_expires_at": pending.expires_at, "question_state": QuestionState.OPEN}


def store_answer(connection: Connection, conversation_id: str, pending_id: str, decision: AgentDecision) -> None:
    """Store in the messages that asked the question `pending_id` whether the decision that used it up was a yes or a no."""
    if (answer := _answer_of(decision)) is not None:
        connection.execute(_CLOSE_QUESTION, {"conversation": conversation_id, "pending": pending_id, "answer": answer})


def close_replaced(connection: Connection, conversation_id: str, waiting: PendingAction | None, now: datetime) -> None:
    """Store in the messages of a conversation that no question but `waiting` can be answered at its place any more."""
    kept = "" if waiting is None else waiting.id
    connection.execute(_CLOSE_OTHERS, {"conversation": conversation_id, "waiting": kept, "now": now})


def shown_state(
    state: QuestionState | None, pending_id: str | None, waiting: PendingAction | None, now: datetime
) -> QuestionState | None:
    """Return the state of a message's question at the time `now`; `waiting` is the action that waits in the conversation."""
    if state is not QuestionState.OPEN:
        return state
    if waiting is None or waiting.id != pending_id:
        return QuestionState.SUPERSEDED
    return QuestionState.OPEN if waiting.can_be_answered(now) else QuestionState.EXPIRED


def files_of(connection: Connection, pending_id: str, user_id: str) -> dict[str, str] | None:
    """Return the files of the process that asked the user the question `pending_id`; None if it was not asked."""
    table = asked_confirmations.c
    found = select(table.files).where(table.pending_id == pending_id, table.user_id == user_id)
    files: dict[str, str] | None = connection.execute(found).scalar_one_or_none()
    return files


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


def open_questions(connection: Connection, user_id: str, now: datetime) -> Sequence[Any]:
    """Return the conversations in which a question to the user waits at the time `now`, the one that expires next first.

    A question that a running turn answers does not wait any more.
    """
    asked = asked_confirmations.c
    # A user gets no more questions in five minutes than the rate limit allows, so that all of them can be read.
    wanted = (
        select(conversations.c.id, conversations.c.title, conversations.c.pending, asked.pending_id)
        .join(asked_confirmations, asked.conversation_id == conversations.c.id)
        .outerjoin(used_confirmations, used_confirmations.c.pending_id == asked.pending_id)
        .where(
            asked.user_id == user_id,
            asked.expires_at > now,
            conversations.c.pending.is_not(None),
            used_confirmations.c.pending_id.is_(None),
        )
        .order_by(asked.expires_at, asked.pending_id)
    )
    # A later question of the same conversation has replaced the others.
    return [row for row in connection.execute(wanted) if row.pending["id"] == row.pending_id]


def _answered(connection: Connection, pending_id: str) -> bool:
    """True if a turn used the question up by a yes or a no; a new request uses it up as well, but answers nothing."""
    decision_id = _used_by(connection, pending_id)
    if decision_id is None:
        return False
    answer = connection.execute(select(turns.c.answer).where(turns.c.id == decision_id)).scalar_one_or_none()
    decision = None if answer is None else answer["decision"]
    return decision is not None and (decision["decision_type"] in _ANSWERED or _had_effect(decision))


def _answer_of(decision: AgentDecision) -> QuestionState | None:
    """Return the answer that a decision followed; None for a new request, which uses a question up and answers nothing."""
    if decision.decision_type is DecisionType.CANCEL_PENDING:
        return QuestionState.DECLINED
    waits = decision.approval is not None and decision.approval.confirmed
    executed = decision.decision_type is DecisionType.EXECUTE_PENDING
    return QuestionState.CONFIRMED if executed or decision.confirmed or waits else None


def _had_effect(decision: dict[str, Any]) -> bool:
    """True if a yes was followed in a decision of another type: the action was made, or waits for other people now."""
    return bool(decision.get("confirmed")) or bool((decision.get("approval") or {}).get("confirmed"))


def _used_by(connection: Connection, pending_id: str) -> str | None:
    """Return the decision that has used up `pending_id`; None if there is none."""
    wanted = select(used_confirmations.c.decision_id).where(used_confirmations.c.pending_id == pending_id)
    decision_id: str | None = connection.execute(wanted).scalar_one_or_none()
    return decision_id

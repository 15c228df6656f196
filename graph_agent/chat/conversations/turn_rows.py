"""The statements on turns, their messages and their limit, which are compiled once, and the claimed turn that they return.

A claimed turn takes part in the transactions that write its record: each checks the claim, and the last one answers the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, exists, insert, or_, select, update

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations.tables import Role, TurnState, conversations, messages, turn_limits, turns
from graph_agent.db import Database, PreparedStatement, insert_into
from graph_agent.errors import ConfirmationExpiredError, ServiceError, ServiceErrorCode, TurnTakenOverError
from graph_agent.models.decision import MAX_DONE_BEFORE, MAX_HISTORY_MESSAGES, STILL_WAITING, AnswerState, EarlierCall, Message
from graph_agent.models.origin import Origin
from graph_agent.models.record import DecisionRecord, OperationState
from graph_agent.ports import Clock, Confirmations, ConfirmationUse
from graph_agent.question import confirmations
from graph_agent.question.approvals import ApprovalStore, renewed_by
from graph_agent.question.transitions import Questions
from graph_agent.record.tables import call_operations, decision_logs, tool_invocation_logs
from graph_agent.record.writer import RecordedTurn
from graph_agent.reply.fixed import RATE_LIMIT_REPLY
from graph_agent.words.cards import says_only_its_card

LIMIT_WINDOW = timedelta(minutes=1)

INSERT_CONVERSATION = PreparedStatement(insert(conversations))
INSERT_MESSAGE = PreparedStatement(insert(messages))

_BY_ID = turns.c.id == bindparam("turn")
_CLAIMED = _BY_ID & (turns.c.attempt == bindparam("claimed_attempt")) & (turns.c.state == TurnState.RUNNING)
"""Matches the turn only while this attempt of it is running."""

IS_CLAIMED = PreparedStatement(select(turns.c.id).where(_CLAIMED).with_for_update(read=True))
"""FOR SHARE, so that on PostgreSQL another process cannot take the turn over before this transaction ends."""
FIND_ANSWER = select(turns.c.answer).where(_BY_ID, turns.c.state == TurnState.DONE)
STOP = (
    update(turns).where(_BY_ID, turns.c.user_id == bindparam("user"), turns.c.state == TurnState.RUNNING).values(stopped=True)
)
ANSWER = PreparedStatement(update(turns).where(_CLAIMED).values(state=TurnState.DONE, answer=bindparam("given")))

HISTORY = (
    select(messages.c.role, messages.c.content, messages.c.created_at, messages.c.decision_type, messages.c.authors)
    .where(messages.c.conversation_id == bindparam("conversation"))
    .order_by(messages.c.number.desc())
    .limit(MAX_HISTORY_MESSAGES)
)
_LAST_TURNS = (
    select(messages.c.decision_id)
    .where(messages.c.conversation_id == bindparam("conversation"))
    .order_by(messages.c.number.desc())
    .limit(MAX_HISTORY_MESSAGES)
)
UNKNOWN_CALLS = (
    select(tool_invocation_logs.c.tool_name, tool_invocation_logs.c.parameters)
    .join_from(
        call_operations,
        tool_invocation_logs,
        (tool_invocation_logs.c.decision_id == call_operations.c.decision_id)
        & (tool_invocation_logs.c.sequence == call_operations.c.sequence),
    )
    .where(call_operations.c.decision_id.in_(_LAST_TURNS), call_operations.c.state == OperationState.UNKNOWN)
    .order_by(call_operations.c.intended_at.desc())
    .limit(MAX_DONE_BEFORE)
)
TOUCH_CONVERSATION = PreparedStatement(
    update(conversations).where(conversations.c.id == bindparam("conversation")).values(updated_at=bindparam("now"))
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
        new = insert_into(turns, database.dialect).values(lease_until=end, created_at=now)
        self.claim = PreparedStatement(new.on_conflict_do_nothing().returning(turns.c.created_at))
        self.take_over = (
            update(turns)
            .where(_CLAIMED, expired)
            .values(owner=bindparam("new_owner"), attempt=bindparam("new_attempt"), lease_until=end)
        )
        self.renew = update(turns).where(_CLAIMED).values(lease_until=end).returning(turns.c.stopped)
        self.expire = update(turns).where(_CLAIMED).values(lease_until=now)
        self.find = select(turns, now.label("read_at")).where(_BY_ID)
        found = select(turns, expired.label("expired"))
        self.find_same_request = found.where(turns.c.user_id == bindparam("user"), turns.c.idem_key == bindparam("key"))
        self.find_running = found.where(turns.c.conversation_id == bindparam("conversation"), running)
        self.find_abandoned = select(turns.c.lease_until, turns.c.id, turns.c.attempt).where(running, expired)


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
    claimed_at: datetime
    """By the database's clock."""
    stopped: bool = False
    """True if the user has stopped it."""

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
        Message(
            role=row.role.value,
            content=row.content,
            timestamp=row.created_at,
            decision_type=row.decision_type,
            origin=Origin.MODEL if row.role is Role.USER and row.authors is not None else None,
        )
        for row in reversed(rows)
    ]


def unknown_calls(connection: Connection, conversation_id: str) -> tuple[EarlierCall, ...]:
    """Return the changes of the last messages of a conversation of which it is not known whether they were done."""
    rows = connection.execute(UNKNOWN_CALLS, {"conversation": conversation_id})
    return tuple(EarlierCall(tool_name=row.tool_name, arguments=row.parameters or {}, unknown=True) for row in rows)


def stored_answer(connection: Connection, decision_id: str) -> ChatAnswer | None:
    """Return the answer of a turn; None if it has none."""
    answer = connection.execute(FIND_ANSWER, {"turn": decision_id}).scalar_one_or_none()
    return None if answer is None else ChatAnswer.model_validate(answer)


class TurnClaim(RecordedTurn, Confirmations):
    """One attempt of a turn, with its conversation, the question that it may answer, and the one that it asks.

    The opening commit of a message has taken the question that waits in its conversation. It is used up in the next commit of
    the turn: the one before the confirmed call, or the closing one.
    """

    claimed = True

    def __init__(
        self,
        questions: Questions,
        turn: ClaimedTurn,
        message_id: str,
        *,
        clock: Clock,
        disclosure: str | None,
        files: Mapping[str, str],
        approvals: ApprovalStore | None = None,
    ) -> None:
        """`message_id` is that of the assistant's message; `disclosure` comes with the first answer of a conversation.

        `files` are those with which this process was started.
        """
        self._questions = questions
        self._turn = turn
        self._message_id = message_id
        self._clock = clock
        self._disclosure = disclosure
        self._files = files
        self._approvals = approvals
        self.attempt = turn.attempt
        self._use: ConfirmationUse | None = None
        self.answer: ChatAnswer | None = None
        """The stored answer, once the closing transaction is committed."""

    async def consume(self, use: ConfirmationUse) -> bool:
        # No other turn can use it up meanwhile: this one has taken it.
        find = partial(self._questions.find, question_id=use.pending.id)
        question = await self._questions.database.read(find)
        if question is None or use.decision_id not in (question.taken_by, question.closed_by):
            return False
        self._use = use
        return True

    def begin_append(self, connection: Connection, decision_id: str) -> None:  # noqa: ARG002 (its claim is of one decision)
        if IS_CLAIMED.first(connection, self._turn.key) is None:
            raise self._lost()
        self._use_up(connection)

    def begin_close(self, connection: Connection, record: DecisionRecord) -> bool:
        answer = self._answer_of(record)
        if ANSWER.run(connection, {**self._turn.key, "given": answer.to_json()}) == 1:
            self.answer = answer
            self._close_questions(connection, record)
            return True
        earlier = stored_answer(connection, self._turn.decision_id)
        if earlier is None:
            raise self._lost()
        self.answer = earlier
        return False

    def end_close(self, connection: Connection, record: DecisionRecord) -> None:
        turn, decision = self._turn, record.decision
        now = self._clock.now()
        message = {
            "id": self._message_id,
            "conversation_id": turn.conversation_id,
            "role": Role.ASSISTANT,
            "content": decision.reply,
            "effects": decision.effects or None,
            "notices": decision.notices or None,
            "authors": None if decision.authors is None else decision.authors.to_json(),
            "decision_id": turn.decision_id,
            "decision_type": decision.decision_type,
            "confirmed": bool(decision.confirmed) or None,
            "approval": None if decision.approval is None else decision.approval.id,
            "created_at": now,
            "question_id": None if decision.pending_action is None else decision.pending_action.id,
            "calls": [one.to_json() for one in decision.calls_said] or None,
            "in_card": (record.header.context.answers is not None and says_only_its_card(decision)) or None,
        }
        INSERT_MESSAGE.run(connection, message)
        if decision.approval is not None:
            assert self._approvals is not None, "a policy that counts approvals is not used without a store"
            self._approvals.open(connection, decision.approval, renewed_by(record))
        TOUCH_CONVERSATION.run(connection, {**turn.key, "now": now})

    def _use_up(self, connection: Connection) -> None:
        """Use up the question that was answered. Raises `ConfirmationExpiredError` for a late yes."""
        if self._use is None or self._end_answered(connection, self._use):
            return
        question = self._questions.find(connection, self._use.pending.id)
        if question is not None and question.taken_by == self._turn.decision_id and not question.in_time:
            raise ConfirmationExpiredError(f"the question {question.id} expired before its yes was followed")
        raise TurnTakenOverError(f"the confirmation of turn {self._turn.decision_id} was used by another turn")

    def _end_answered(self, connection: Connection, use: ConfirmationUse) -> bool:
        given = confirmations.answer_of(use)
        if given is None:
            return self._questions.drop(connection, use.pending.id, use.decision_id)
        return self._questions.use(connection, use.pending.id, use.decision_id, given)

    def _close_questions(self, connection: Connection, record: DecisionRecord) -> None:
        """Store what becomes of the question that the turn has taken, and the question that it asks."""
        turn, decision, context = self._turn, record.decision, record.header.context
        taken, asked, decision_id = context.pending_confirmation, decision.pending_action, self._turn.decision_id
        with suppress(ConfirmationExpiredError):
            # A turn that comes here with a late yes has changed nothing for it: the question ends as expired below.
            self._use_up(connection)
        if asked is not None and (taken is None or taken.id != asked.id):
            new = confirmations.confirmation(asked, turn.user_id, turn.conversation_id, decision_id, self._files)
            self._questions.ask(connection, new, [f"user:{turn.user_id}"])
        elif taken is not None and asked is not None and asked.asked > taken.asked:
            confirmations.ask_again(self._questions, connection, asked, decision_id)
        elif taken is not None:
            # If the user answered another question than the one that waits, that one stays, as does one with no effect yet.
            other = context.answers is not None and context.answers.state is not AnswerState.CURRENT
            stays = asked is not None or other or decision.void_answer in STILL_WAITING
            leave = self._questions.give_back if stays else self._questions.drop
            leave(connection, taken.id, decision_id)

    def _answer_of(self, record: DecisionRecord) -> ChatAnswer:
        return ChatAnswer(
            conversation_id=self._turn.conversation_id,
            message_id=self._message_id,
            decision_id=self._turn.decision_id,
            reply=record.decision.reply,
            decision=record.decision,
            states=record.states,
            disclosure=None if record.header.context.message_history else self._disclosure,
        )

    def _lost(self) -> TurnTakenOverError:
        return TurnTakenOverError(f"turn {self._turn.decision_id} is claimed by another process")

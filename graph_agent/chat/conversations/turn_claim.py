"""A claimed turn, inside the transactions that write its record: each checks the claim, and the last one answers the turn."""

from __future__ import annotations

from sqlalchemy import Connection

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations import confirmations, turn_rows
from graph_agent.chat.conversations.tables import Role
from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.db import Database
from graph_agent.errors import TurnTakenOverError
from graph_agent.models.decision import AnswerState
from graph_agent.models.record import DecisionRecord
from graph_agent.ports import Clock, Confirmations
from graph_agent.record.writer import JoinedTurn


class TurnClaim(JoinedTurn, Confirmations):
    """One attempt of a turn, with its conversation and its confirmation.

    The confirmation is used up in the next commit of the turn: the one before the confirmed call, or the closing one.
    """

    def __init__(self, database: Database, turn: ClaimedTurn, message_id: str, *, clock: Clock, disclosure: str | None) -> None:
        """`message_id` is that of the assistant's message; `disclosure` comes with the first answer of a conversation."""
        self._database = database
        self._turn = turn
        self._message_id = message_id
        self._clock = clock
        self._disclosure = disclosure
        self.attempt = turn.attempt
        self._used: str | None = None
        self.answer: ChatAnswer | None = None
        """The stored answer, once the closing transaction is committed."""

    async def consume(self, pending_id: str, decision_id: str) -> bool:
        # No other turn can use it up meanwhile: one turn of a conversation runs at a time.
        if await self._database.read(lambda connection: confirmations.is_used(connection, pending_id, decision_id)):
            return False
        self._used = pending_id
        return True

    def begin_append(self, connection: Connection) -> None:
        if turn_rows.IS_CLAIMED.first(connection, self._turn.key) is None:
            raise self._lost()
        self._use_up(connection)

    def begin_close(self, connection: Connection, record: DecisionRecord) -> bool:
        answer = self._answer_of(record)
        if turn_rows.ANSWER.run(connection, {**self._turn.key, "given": answer.to_json()}) == 1:
            self.answer = answer
            return True
        earlier = turn_rows.stored_answer(connection, self._turn.decision_id)
        if earlier is None:
            raise self._lost()
        self.answer = ChatAnswer.model_validate(earlier)
        return False

    def end_close(self, connection: Connection, record: DecisionRecord) -> None:
        turn, decision, context = self._turn, record.decision, record.header.context
        now = self._clock.now()
        self._use_up(connection)
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
            "created_at": now,
        }
        turn_rows.INSERT_MESSAGE.run(connection, message)
        if (context.called or context.dry_run) and decision.pending_action is None:
            # Calls answer no question: the one that is waiting stays.
            turn_rows.TOUCH_CONVERSATION.run(connection, {**turn.key, "now": now})
            return
        # If the user answered another question than the one that is waiting, that one stays.
        keeps = context.answers is not None and context.answers.state is not AnswerState.CURRENT
        pending = context.pending_confirmation if keeps else decision.pending_action
        waiting = None if pending is None else pending.to_json()
        turn_rows.UPDATE_CONVERSATION.run(connection, {**turn.key, "waiting": waiting, "now": now})
        if pending is not None:
            confirmations.store_question(connection, turn.user_id, turn.conversation_id, pending)

    def _use_up(self, connection: Connection) -> None:
        decision_id = self._turn.decision_id
        if self._used is not None and not confirmations.use_up(connection, self._used, decision_id, self._clock.now()):
            raise TurnTakenOverError(f"the confirmation of turn {decision_id} was used by another turn")

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

"""Turns: who runs one, until when, and what it answered.

A claim is one INSERT that gives way to what stands: the same key of the same user, or another running turn of the conversation.
Whoever holds a turn has it until its lease ends; then anybody may take it over, by compare-and-set on `attempt`. What a holder
writes counts only while the attempt is still its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row

from graph_agent.clock import RandomIds
from graph_agent.chat.conversations import statements, turn_rows
from graph_agent.chat.conversations.limits import count_turn
from graph_agent.chat.conversations.reading import owned_conversation
from graph_agent.chat.conversations.tables import Role, TurnState
from graph_agent.chat.conversations.turn_rows import HeldTurn
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode, TurnTakenOverError
from graph_agent.models.canonical import digest
from graph_agent.models.decision import AgentDecision, Message, PendingAction
from graph_agent.ports import Clock, IdSource

_TITLE_LENGTH = 80
_TRIES = 5
"""How often a claim may lose to a turn that is gone when it is looked for."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a user sent. Without a conversation a new one is begun; without a key it is never a repetition."""

    user_id: str
    content: str
    conversation_id: str | None = None
    idem_key: str | None = None

    @property
    def body_digest(self) -> str:
        return digest({"conversation_id": self.conversation_id, "content": self.content})


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """The same request was answered before: this is its answer."""

    answer: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AbandonedTurn:
    """A running turn whose lease has ended: the request's own (`same_request`), or one that bars the conversation."""

    decision_id: str
    attempt: int
    same_request: bool = False


class TurnStore:
    """The turns table, and the messages that stand and fall with it.

    Every method is one transaction, and raises `ServiceError` SERVICE_UNAVAILABLE where the database does not answer.
    """

    def __init__(self, database: Database, *, clock: Clock, ids: IdSource, lease: timedelta, turns_per_minute: int) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._lease = lease
        self._turns_per_minute = turns_per_minute
        self._owner = RandomIds().new()

    async def claim(self, request: TurnRequest) -> HeldTurn | AnsweredTurn | AbandonedTurn:
        """Begin the turn that `request` asks for, with its user message, or say what stands in its place.

        Raises `ServiceError`: CONVERSATION_NOT_FOUND, ACCESS_DENIED, RATE_LIMITED, IDEMPOTENCY_KEY_REUSED,
        REQUEST_IN_PROGRESS, CONVERSATION_BUSY.
        """
        wanted = (request.user_id, request.idem_key, request.conversation_id)
        for _ in range(_TRIES):
            try:
                return await statements.write(self._database, lambda connection: self._claim(connection, request))
            except _LostError:
                found = await statements.read(self._database, lambda connection: turn_rows.standing(connection, *wanted))
                if found is not None:
                    return self._judged(found, request)
        raise busy()

    async def take_over(self, turn: AbandonedTurn) -> HeldTurn | None:
        """Hold a turn whose lease has ended; None if somebody was faster."""
        now = self._clock.now()
        lease_until = now + self._lease

        def work(connection: Connection) -> HeldTurn | None:
            return turn_rows.take_over(
                connection, turn.decision_id, turn.attempt, owner=self._owner, now=now, lease_until=lease_until
            )

        return await statements.write(self._database, work)

    async def complete(
        self, turn: HeldTurn, message_id: str, decision: AgentDecision, answer: dict[str, Any]
    ) -> dict[str, Any]:
        """Write the answer, the assistant's message and the action that waits now; returns the answer that stands.

        Raises `TurnTakenOverError` where another process holds the turn and has not answered yet.
        """
        now = self._clock.now()
        waiting = decision.pending_action.to_json() if decision.pending_action else None
        message = {
            "id": message_id,
            "conversation_id": turn.conversation_id,
            "role": Role.ASSISTANT,
            "content": decision.reply,
            "effects": decision.effects or None,
            "decision_id": turn.decision_id,
            "created_at": now,
        }

        def work(connection: Connection) -> dict[str, Any]:
            if turn_rows.answer(connection, turn, answer, message, waiting, now):
                return answer
            earlier = turn_rows.find_answer(connection, turn.decision_id)
            if earlier is None:
                raise TurnTakenOverError(f"turn {turn.decision_id} is held elsewhere")
            return earlier

        return await statements.write(self._database, work)

    async def release(self, turn: HeldTurn) -> None:
        """Undo a claim that came to nothing: turn, user message, and the conversation if it was begun for this."""
        await statements.write(self._database, lambda connection: turn_rows.forget(connection, turn))

    async def expire(self, turn: HeldTurn) -> None:
        """End the lease now, so that a repetition of the request need not wait for it."""
        now = self._clock.now()
        await statements.write(self._database, lambda connection: turn_rows.end_lease(connection, turn, now))

    async def answer(self, decision_id: str) -> dict[str, Any] | None:
        """The answer of a turn, if it is done."""
        return await statements.read(self._database, lambda connection: turn_rows.find_answer(connection, decision_id))

    async def abandoned(self, limit: int = 100) -> list[AbandonedTurn]:
        """Running turns whose lease has ended, oldest first."""
        now = self._clock.now()
        rows = await statements.read(self._database, lambda connection: turn_rows.abandoned(connection, now, limit))
        return [AbandonedTurn(*row) for row in rows]

    async def running(self, decision_ids: Sequence[str]) -> set[str]:
        """Those of `decision_ids` that are running turns."""
        return await statements.read(self._database, lambda connection: turn_rows.running(connection, decision_ids))

    def _claim(self, connection: Connection, request: TurnRequest) -> HeldTurn:
        now = self._clock.now()
        decision_id = self._ids.new()
        history: tuple[Message, ...] = ()
        pending: PendingAction | None = None
        if request.conversation_id is None:
            conversation_id = self._ids.new()
            title = " ".join(request.content.split())[:_TITLE_LENGTH]
            row = {"id": conversation_id, "user_id": request.user_id, "title": title, "created_at": now, "updated_at": now}
            turn_rows.begin_conversation(connection, row)
        else:
            conversation = owned_conversation(connection, request.user_id, request.conversation_id)
            conversation_id, pending = conversation.id, turn_rows.waiting_action(conversation.pending)
        turn = {
            "id": decision_id,
            "user_id": request.user_id,
            "idem_key": request.idem_key,
            "body_digest": request.body_digest,
            "conversation_id": conversation_id,
            "state": TurnState.RUNNING,
            "owner": self._owner,
            "attempt": 1,
            "lease_until": now + self._lease,
            "created_at": now,
        }
        if not turn_rows.begin(connection, turn):
            raise _LostError
        count_turn(connection, request.user_id, now, self._turns_per_minute)
        if request.conversation_id is not None:
            history = turn_rows.history(connection, conversation_id)
        message = {
            "id": self._ids.new(),
            "conversation_id": conversation_id,
            "role": Role.USER,
            "content": request.content,
            "decision_id": decision_id,
            "created_at": now,
        }
        turn_rows.add_message(connection, message)
        return HeldTurn(decision_id, request.user_id, conversation_id, 1, request.content, history, pending)

    def _judged(self, standing: Row[Any], request: TurnRequest) -> AnsweredTurn | AbandonedTurn:
        """What the turn in the way means for the request."""
        same_request = request.idem_key is not None and standing.idem_key == request.idem_key
        if same_request and standing.body_digest != request.body_digest:
            text = "This Idempotency-Key was used for another request."
            raise ServiceError(ServiceErrorCode.IDEMPOTENCY_KEY_REUSED, text)
        if standing.state is TurnState.DONE:
            return AnsweredTurn(standing.answer)
        if standing.lease_until > self._clock.now():
            raise in_progress() if same_request else busy()
        return AbandonedTurn(standing.id, standing.attempt, same_request)


class _LostError(Exception):
    """The claim gave way to what stands; its transaction is rolled back."""


def in_progress() -> ServiceError:
    text = "This request is still being worked on."
    return ServiceError(ServiceErrorCode.REQUEST_IN_PROGRESS, text, retry_after=1)


def busy() -> ServiceError:
    text = "Another message of this conversation is still being worked on."
    return ServiceError(ServiceErrorCode.CONVERSATION_BUSY, text, retry_after=1)

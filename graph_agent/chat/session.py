"""The chat's part of a turn: its claim is kept while it runs, and its answer is stored when it has ended."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import TurnStore, in_progress
from graph_agent.chat.endings import TurnEndings
from graph_agent.chat.leases import LeaseKeeper
from graph_agent.errors import (
    ConfigurationError,
    RecordUnavailableError,
    ServiceError,
    ServiceErrorCode,
    TurnTakenOverError,
    outcome_unknown,
)
from graph_agent.llm.loop_clients import LoopThrottle
from graph_agent.models.decision import DecisionContext
from graph_agent.ports import IdSource
from graph_agent.turn.finished import FinishedTurn
from graph_agent.turn.run import TurnRun, TurnSession, TurnStart

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChatStores:
    """The stores that the sessions of a chat service share."""

    turns: TurnStore
    leases: LeaseKeeper
    endings: TurnEndings
    throttle: LoopThrottle
    ids: IdSource
    disclosure: str | None = None
    """Says that one talks to an AI system, with the first answer of a conversation."""


class ChatSession(TurnSession[ChatAnswer]):
    """The session of one claimed turn."""

    def __init__(self, stores: ChatStores, turn: ClaimedTurn, since: float, roles: tuple[str, ...] = ()) -> None:
        """`since` is the monotonic time just before the turn was claimed. A turn that asks no model needs no `roles`."""
        self._roles = roles
        self._stores = stores
        self._turn = turn
        self._since = since

    def start(self, *, asks_model: bool = True) -> TurnStart:
        """Return the start of the turn; one that was claimed before continues from its record, if it has one."""
        turn = self._turn
        context = DecisionContext(
            user_id=turn.user_id,
            message=turn.content,
            conversation_id=turn.conversation_id,
            message_history=list(turn.history),
            pending_confirmation=turn.pending,
            answers=turn.answers,
            shown=turn.shown,
            roles=self._roles,
        )
        return TurnStart(context, resumes=turn.attempt > 1, asks_model=asks_model)

    @asynccontextmanager
    async def surround(self, run: TurnRun[Any]) -> AsyncGenerator[None]:
        stores, turn = self._stores, self._turn
        with stores.leases.keep_claim(turn, run, self._since), stores.endings.report(turn.decision_id):
            # The claims of a burst are committed together; other requests are answered between the turns that begin then.
            await stores.throttle.wait()
            yield

    async def complete(self, finished: FinishedTurn | None) -> ChatAnswer:
        """Store the answer, and return the stored one, which another process may have stored first.

        Raises `TurnTakenOverError` if another process has claimed the turn and has not answered it yet.
        """
        assert finished is not None, "a chat turn has a context"
        turn, record, message_id = self._turn, finished.record, self._stores.ids.new()
        answer = ChatAnswer(
            conversation_id=turn.conversation_id,
            message_id=message_id,
            decision_id=turn.decision_id,
            reply=record.decision.reply,
            decision=record.decision,
            states=record.states,
            disclosure=None if turn.history else self._stores.disclosure,
        )
        stored = await self._stores.turns.complete(turn, message_id, record.decision, answer.to_json())
        return ChatAnswer.model_validate(stored)

    async def fail(self, run: TurnRun[Any], failure: BaseException) -> ChatAnswer:
        """Raise SERVICE_UNAVAILABLE only if nothing was called; from the opening row on, a failure is OUTCOME_UNKNOWN."""
        turn = self._turn
        if isinstance(failure, TurnTakenOverError):
            return await self._answer_of_other_process(failure)
        if not isinstance(failure, Exception):
            # The event loop is shutting down: finish the turn as far as that is still possible.
            await self._end(run)
            raise failure
        # A turn that was claimed before may have its opening row, written by a process that is only slow.
        begun = turn.attempt > 1 or bool(run.steps) or _is_outcome_unknown(failure)
        if run.cancelled_for is None:
            await self._release(begun=begun)
        elif (answer := await self._end(run)) is not None:
            # Cancelled before its opening row: the turn still gets one, and an answer.
            return answer
        if begun:
            _log.warning("the outcome of turn %s is not known", turn.decision_id, exc_info=failure)
            raise outcome_unknown(turn.decision_id) from failure
        if isinstance(failure, RecordUnavailableError):
            raise not_recordable() from failure
        if isinstance(failure, ConfigurationError):
            _log.error("turns cannot be run: %s", failure)
            text = "The service is not ready. Please try again later."
            raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=5) from failure
        raise failure

    async def _end(self, run: TurnRun[Any]) -> ChatAnswer | None:
        """End the turn without the model and store its answer; None if that failed."""
        try:
            return await self.complete(await run.end_interrupted())
        except TurnTakenOverError:
            return None
        except Exception:
            _log.exception("turn %s could not be finished", self._turn.decision_id)
            await self._release(begun=True)
            return None

    async def _release(self, *, begun: bool) -> None:
        """Give up the claim after a failure: undo it if nothing has begun, else let the next request take the turn over."""
        try:
            await (self._stores.turns.expire(self._turn) if begun else self._stores.turns.release(self._turn))
        except ServiceError:
            _log.warning("turn %s stays claimed until its lease expires", self._turn.decision_id)

    async def _answer_of_other_process(self, failure: TurnTakenOverError) -> ChatAnswer:
        try:
            answer = await self._stores.turns.answer(self._turn.decision_id)
        except ServiceError as unread:
            raise outcome_unknown(self._turn.decision_id) from unread
        if answer is None:
            raise in_progress() from failure
        return ChatAnswer.model_validate(answer)


def not_recordable() -> ServiceError:
    """Return the error of a request that cannot be recorded, for which nothing was called."""
    text = "The request cannot be recorded right now. Please try again later."
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=5)


def _is_outcome_unknown(exc: Exception) -> bool:
    return isinstance(exc, ServiceError) and exc.code is ServiceErrorCode.OUTCOME_UNKNOWN

"""Recovery of unfinished turns, whose process has died or whose caller disconnected before the turn had begun.

A turn is finished from its record, without asking the model. This process claims it first, so that the earlier owner can no
longer write if it is not dead but slow.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, runtime_checkable

from graph_agent.chat.answer import ChatAnswer, store_answer
from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import AbandonedTurn, TurnStore
from graph_agent.chat.leases import LeaseKeeper
from graph_agent.errors import RecordUnavailableError, ServiceError, ServiceErrorCode, TurnTakenOverError
from graph_agent.models.decision import DecisionContext
from graph_agent.models.record import DecisionOpening
from graph_agent.ports import Clock, IdSource
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.run import TurnRun

_log = logging.getLogger(__name__)

T = TypeVar("T")

ABANDONED_AFTER = timedelta(minutes=10)
"""The age at which an open decision without a turn, such as one of the command line, counts as abandoned."""


@runtime_checkable
class OpenDecisionLog(Protocol):
    """An audit writer that can list the decisions that are open."""

    async def open_decisions(self, before: datetime, limit: int = 100) -> list[str]: ...


class TurnRecovery:
    """Finishes turns without asking the model."""

    def __init__(self, engine: LLMAgentEngine, turns: TurnStore, leases: LeaseKeeper, *, clock: Clock, ids: IdSource) -> None:
        self._engine = engine
        self._turns = turns
        self._clock = clock
        self._ids = ids
        self._leases = leases

    async def sweep(self) -> int:
        """Finish every turn whose lease has expired, and every old open decision; return how many there were."""
        total = 0
        # Each pass reads a limited number of turns. The sweep ends with the first pass that can finish none.
        while finished := await self._sweep_once():
            total += finished
        return total

    async def _sweep_once(self) -> int:
        finished = 0
        for abandoned in await self._turns.abandoned():
            if not self._leases.is_running(abandoned.decision_id):
                finished += await self.finish_abandoned(abandoned)
        if isinstance(self._engine.audit, OpenDecisionLog):
            before = self._clock.now() - max(ABANDONED_AFTER, timedelta(seconds=2 * self._engine.config.timeout_seconds))
            open_decisions = await run_on_log(self._engine.audit.open_decisions(before))
            running = await self._turns.running(open_decisions)
            for decision_id in open_decisions:
                if decision_id not in running:
                    finished += await self._finish_decision(decision_id)
        return finished

    async def finish_abandoned(self, abandoned: AbandonedTurn) -> bool:
        """Take over a turn whose lease has expired and finish it; False if another process does, or if it failed."""
        since = self._clock.monotonic()
        turn = await self._turns.take_over(abandoned)
        if turn is None:
            return False

        async def finish(run: TurnRun[ChatAnswer | None]) -> ChatAnswer | None:
            with self._leases.keep_claim(turn, run, since):
                return await self.finish(run, turn)

        run = self._engine.start(finish, turn.user_id, decision_id=turn.decision_id)
        return await run.result() is not None

    async def finish(self, run: TurnRun[Any], turn: ClaimedTurn) -> ChatAnswer | None:
        """Finish a claimed turn inside its owner task, and store its answer; None if that failed."""
        try:
            finished = await self._engine.resume(run, ask_model=False)
            if finished is None:
                await self._open(turn)
                finished = await self._engine.resume(run, ask_model=False)
            assert finished is not None
            return await store_answer(self._turns, turn, finished.record, self._ids.new())
        except TurnTakenOverError:
            return None
        except Exception:
            _log.exception("turn %s could not be finished", turn.decision_id)
            await self.release(turn, begun=True)
            return None

    async def release(self, turn: ClaimedTurn, *, begun: bool) -> None:
        """Give up a claim after a failure: undo it if nothing has begun, else let the next request take the turn over."""
        try:
            if begun:
                await self._turns.expire(turn)
            else:
                await self._turns.release(turn)
        except ServiceError:
            _log.warning("turn %s stays claimed until its lease expires", turn.decision_id)

    async def _open(self, turn: ClaimedTurn) -> None:
        """Write the missing opening row of a turn, so that its earlier owner can no longer write it."""
        context = context_of(turn)
        snapshot = await self._engine.prepare()
        header = self._engine.header(context, snapshot, turn.decision_id)
        # If the earlier owner has written it meanwhile, that row is used.
        with contextlib.suppress(TurnTakenOverError):
            await self._engine.audit.write_opening(DecisionOpening.of(header, snapshot.texts))

    async def _finish_decision(self, decision_id: str) -> bool:
        try:
            return await self._engine.finish(decision_id, ask_model=False) is not None
        except Exception:
            _log.exception("decision %s could not be finished", decision_id)
            return False


def context_of(turn: ClaimedTurn) -> DecisionContext:
    """Return the engine's input for a claimed turn."""
    return DecisionContext(
        user_id=turn.user_id,
        message=turn.content,
        conversation_id=turn.conversation_id,
        message_history=list(turn.history),
        pending_confirmation=turn.pending,
        answers=turn.answers,
    )


async def run_on_log(work: Awaitable[T]) -> T:
    """Return the result of `work` on the log. Raises `ServiceError` SERVICE_UNAVAILABLE if the log database does not answer."""
    try:
        return await work
    except RecordUnavailableError as exc:
        raise not_recordable() from exc


def not_recordable() -> ServiceError:
    text = "The request cannot be recorded right now. Please try again later."
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=5)

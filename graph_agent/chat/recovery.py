"""Recovery of unfinished turns, whose process has died or whose caller disconnected before the turn had begun.

A turn is finished from its record, without asking the model. This process claims it first, so that the earlier owner can no
longer write if it is not dead but slow.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import Protocol, TypeVar, runtime_checkable

from graph_agent.chat.conversations.turns import AbandonedTurn
from graph_agent.chat.session import ChatSession, ChatStores, not_recordable
from graph_agent.errors import GraphAgentError, RecordUnavailableError
from graph_agent.ports import Clock
from graph_agent.turn.engine import LLMAgentEngine

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

    def __init__(self, engine: LLMAgentEngine, stores: ChatStores, *, clock: Clock) -> None:
        self._engine = engine
        self._stores = stores
        self._clock = clock

    async def sweep(self) -> int:
        """Finish every turn whose lease has expired, and every old open decision; return how many there were."""
        total = 0
        # Each pass reads a limited number of turns. The sweep ends with the first pass that can finish none.
        while finished := await self._sweep_once():
            total += finished
        return total

    async def _sweep_once(self) -> int:
        finished = 0
        for abandoned in await self._stores.turns.abandoned():
            if not self._stores.leases.is_running(abandoned.decision_id):
                finished += await self.finish_abandoned(abandoned)
        if isinstance(self._engine.audit, OpenDecisionLog):
            before = self._clock.now() - max(ABANDONED_AFTER, timedelta(seconds=2 * self._engine.config.timeout_seconds))
            open_decisions = await run_on_log(self._engine.audit.open_decisions(before))
            running = await self._stores.turns.running(open_decisions)
            for decision_id in open_decisions:
                if decision_id not in running:
                    finished += await self._finish_decision(decision_id)
        return finished

    async def finish_abandoned(self, abandoned: AbandonedTurn) -> bool:
        """Take over a turn whose lease has expired and finish it; False if another process does, or if it failed."""
        since = self._clock.monotonic()
        turn = await self._stores.turns.take_over(abandoned)
        if turn is None:
            return False

        session = ChatSession(self._stores, turn, since)
        start = session.start(asks_model=False)
        run = self._engine.start(start, session, turn.decision_id, user_id=turn.user_id)
        try:
            await run.result()
        except GraphAgentError:
            _log.exception("turn %s could not be finished", turn.decision_id)
            return False
        return True

    async def _finish_decision(self, decision_id: str) -> bool:
        try:
            return await self._engine.finish(decision_id, ask_model=False) is not None
        except Exception:
            _log.exception("decision %s could not be finished", decision_id)
            return False


async def run_on_log(work: Awaitable[T]) -> T:
    """Return the result of `work` on the log. Raises `ServiceError` SERVICE_UNAVAILABLE if the log database does not answer."""
    try:
        return await work
    except RecordUnavailableError as exc:
        raise not_recordable() from exc

"""The chat's part of a turn: its claim is kept while it runs, and the commit that closes its record stores its answer.

While a turn runs, the lease of its claim is renewed every few seconds. A lease is short, so that another process can soon take
over a turn whose process has died. All turns of this process are renewed in one transaction, which also returns which of them
have been stopped by their users; a turn that ends within two seconds is never renewed. A turn whose claim is lost, or cannot be
renewed before it expires, is fenced: it may no longer act or write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations.turn_rows import ClaimedTurn, TurnClaim
from graph_agent.chat.conversations.turns import TurnStore, in_progress
from graph_agent.chat.endings import TurnEndings
from graph_agent.clock import run_with_timeout
from graph_agent.errors import ServiceError, TurnTakenOverError, outcome_unknown
from graph_agent.llm.loop_clients import LoopThrottle
from graph_agent.ports import Clock, IdSource
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.turn.finished import FinishedTurn
from graph_agent.turn.handle import TurnHandle
from graph_agent.turn.run import TurnRun, TurnSession

_log = logging.getLogger(__name__)

LEASE = timedelta(seconds=5)
RENEW_AFTER_SECONDS = 2.0

_CHECK_SECONDS = 0.5


@dataclass(slots=True)
class _KeptClaim:
    turn: ClaimedTurn
    run: TurnHandle[Any]
    since: float
    """The monotonic time of the claim or its last renewal. A change of the wall clock does not affect it."""


class LeaseKeeper:
    """Renews the leases of the turns that run in this process."""

    def __init__(self, turns: TurnStore, *, clock: Clock) -> None:
        self._turns = turns
        self._clock = clock
        self._kept: dict[str, _KeptClaim] = {}
        self._renewing: asyncio.Task[None] | None = None

    @contextmanager
    def keep_claim(self, turn: ClaimedTurn, run: TurnHandle[Any], since: float) -> Iterator[None]:
        """Renew the lease of `turn` until this context ends; fence `run` if the claim is lost.

        `since` is the monotonic time just before the turn was claimed.
        """
        kept, earlier = _KeptClaim(turn, run, since), self._kept.get(turn.decision_id)
        if earlier is not None:
            # This process has taken the turn over from itself: two requests found it while its lease had expired.
            earlier.run.fence()
        self._kept[turn.decision_id] = kept
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew_until_all_ended())
        try:
            yield
        finally:
            if self._kept.get(turn.decision_id) is kept:
                del self._kept[turn.decision_id]

    def is_running(self, decision_id: str) -> bool:
        """Return True if the turn runs in this process, even if its lease has expired because a renewal was late."""
        return decision_id in self._kept

    async def _renew_until_all_ended(self) -> None:
        while self._kept:
            await asyncio.sleep(_CHECK_SECONDS)
            await self._renew()

    async def _renew(self) -> None:
        started = self._clock.monotonic()
        due = [claim for claim in self._kept.values() if started - claim.since >= RENEW_AFTER_SECONDS]
        if not due:
            return
        try:
            renewed = await run_with_timeout(RENEW_AFTER_SECONDS, self._turns.renew([claim.turn for claim in due]))
        except (ServiceError, TimeoutError):
            renewed = None
        for claim in due:
            if renewed is None:
                lost = self._clock.monotonic() - claim.since >= LEASE.total_seconds()
            elif lost := claim.turn.decision_id not in renewed:
                # A turn that ended during the renewal is not in `_kept` any more: its claim was released, not lost.
                lost = self._kept.get(claim.turn.decision_id) is claim
            else:
                claim.since = started
                if renewed[claim.turn.decision_id]:
                    claim.run.cancel()
            if lost and not claim.run.fenced:
                _log.warning("the claim of turn %s is lost; it may no longer act", claim.turn.decision_id)
                claim.run.fence()


@dataclass(frozen=True, slots=True)
class ChatStores:
    """The stores that the sessions of a chat service share."""

    audit: DatabaseAuditWriter
    turns: TurnStore
    leases: LeaseKeeper
    endings: TurnEndings
    throttle: LoopThrottle
    clock: Clock
    ids: IdSource
    disclosure: str | None = None
    """Says that one talks to an AI system, with the first answer of a conversation."""


class ChatSession(TurnSession[ChatAnswer]):
    """The session of one claimed turn, whose record is open. Every failure leaves an unknown outcome."""

    def __init__(self, stores: ChatStores, turn: ClaimedTurn, since: float) -> None:
        """`since` is the monotonic time just before the turn was claimed."""
        self._stores = stores
        self._turn = turn
        self._since = since
        message_id = stores.ids.new()
        self._claim = TurnClaim(stores.audit.database, turn, message_id, clock=stores.clock, disclosure=stores.disclosure)
        self.writer = stores.audit.joined_with(self._claim)
        self.attempt = turn.attempt
        self.confirmations = self._claim

    @asynccontextmanager
    async def surround(self, run: TurnRun[Any]) -> AsyncGenerator[None]:
        stores, turn = self._stores, self._turn
        with stores.leases.keep_claim(turn, run, self._since), stores.endings.report(turn.decision_id):
            # The claims of a burst are committed together; other requests are answered between the turns that begin then.
            await stores.throttle.wait()
            yield

    async def complete(self, finished: FinishedTurn | None) -> ChatAnswer:  # noqa: ARG002 (the interface has it)
        """Return the answer that was stored with the closing row, by this process or an earlier one."""
        assert self._claim.answer is not None, "a claimed turn has a record"
        return self._claim.answer

    async def fail(self, run: TurnRun[Any], failure: BaseException) -> ChatAnswer:  # noqa: ARG002 (the interface has it)
        if isinstance(failure, TurnTakenOverError):
            return await self._answer_of_other_process(failure)
        if not isinstance(failure, Exception):
            raise failure
        _log.warning("the outcome of turn %s is not known", self._turn.decision_id, exc_info=failure)
        try:
            # The next request takes the turn over.
            await self._stores.turns.expire(self._turn)
        except ServiceError:
            _log.warning("turn %s stays claimed until its lease expires", self._turn.decision_id)
        raise outcome_unknown(self._turn.decision_id) from failure

    async def _answer_of_other_process(self, failure: TurnTakenOverError) -> ChatAnswer:
        try:
            answer = await self._stores.turns.answer(self._turn.decision_id)
        except ServiceError as unread:
            raise outcome_unknown(self._turn.decision_id) from unread
        if answer is None:
            raise in_progress() from failure
        return ChatAnswer.model_validate(answer)

"""Leases: while a turn runs, its claim is renewed every few seconds.

A lease is short, so that another process can soon take over a turn whose process has died. All turns of this process are
renewed in one transaction, which also returns which of them have been stopped by their users; a turn that ends within two
seconds is never renewed. A turn whose claim is lost, or cannot be renewed before it expires, is fenced: it may no longer act
or write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import TurnStore
from graph_agent.clock import run_with_timeout
from graph_agent.errors import ServiceError
from graph_agent.ports import Clock
from graph_agent.turn.handle import TurnHandle

_log = logging.getLogger(__name__)

LEASE = timedelta(seconds=5)
# Two attempts fit into a lease: a renewal that takes too long is ended after this time, and another one follows.
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
                # By this process alone, before the database lets another one take over: no process may act without a lease.
                lost = self._clock.monotonic() - claim.since >= LEASE.total_seconds()
            elif lost := claim.turn.decision_id not in renewed:
                # A turn that ended during the renewal is not in `_kept` any more: its claim was released, not lost.
                lost = self._kept.get(claim.turn.decision_id) is claim
            else:
                # From before the commit, so that this process never believes in a lease longer than the database does.
                claim.since = started
                if renewed[claim.turn.decision_id]:
                    claim.run.cancel()
            if lost and not claim.run.fenced:
                _log.warning("the claim of turn %s is lost; it may no longer act", claim.turn.decision_id)
                claim.run.fence()

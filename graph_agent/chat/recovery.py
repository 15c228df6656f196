"""Recovery of unfinished turns, whose process has died, and of decisions without a turn that were left open.

A turn is finished from its record, without asking the model: what its user has confirmed is still done, if the question has
not expired. This process claims it first, so that the earlier owner can no longer write if it is not dead but slow.

A decision without a turn has no lease. Once it is old, or its process knows that it no longer runs, a row makes it due to close
it: one process after another tries that, less and less often, and operators see what cannot be closed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta

from graph_agent.chat.approval_rules import other_evidence
from graph_agent.chat.conversations.turns import AbandonedTurn
from graph_agent.chat.session import ChatSession, ChatStores
from graph_agent.due.table import BackOff, DueTable, DueWork, WorkKind
from graph_agent.due.worker import Again, DueHandler, OverdueHandler
from graph_agent.errors import (
    ConfigurationError,
    GraphAgentError,
    RecordUnavailableError,
    ServiceError,
    TurnTakenOverError,
    service_unavailable,
)
from graph_agent.models.approval import ApprovalState
from graph_agent.models.record import OpenTurn
from graph_agent.record.writer import OpenDecision
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.run import TurnStart

_log = logging.getLogger(__name__)

ABANDONED_AFTER = timedelta(minutes=10)
"""The least age at which an open decision without a turn, such as one of the command line, counts as abandoned."""

_LOOK_SECONDS = 10.0
"""The time between two looks for turns whose lease has expired: a process that is only slow renews it meanwhile."""
_LATER = timedelta(minutes=1)
_BACK_OFF = BackOff(timedelta(seconds=30), timedelta(hours=1), tries=24)
"""The waits for a decision that could not be closed; after most of a day it is stuck, and operators see it."""


class TurnRecovery:
    """Finishes turns without asking the model."""

    def __init__(self, engine: LLMAgentEngine, stores: ChatStores) -> None:
        self._engine = engine
        self._stores = stores
        self._database = stores.audit.database
        self._due = DueTable(self._database)

    @property
    def overdue(self) -> OverdueHandler:
        """The handler that finishes every turn whose lease has expired."""
        # Several at once, because a confirmed call may have to wait for its server.
        return OverdueHandler("turn", self._find_turns, self.finish_abandoned, slots=8, every=_LOOK_SECONDS, key=_id_of)

    @property
    def handler(self) -> DueHandler:
        """The handler that closes the decisions that `put_left_open` has found."""
        return DueHandler(WorkKind.DECISION, self._close_decision, slots=1, back_off=_BACK_OFF)

    async def put_left_open(self) -> None:
        """Make it due to close the decisions without a turn that no longer run. No row is written while they run."""
        age = max(ABANDONED_AFTER, timedelta(seconds=2 * self._engine.config.timeout_seconds))
        try:
            async for page in self._stores.audit.open_decisions(age):
                await self._put(page)
        except RecordUnavailableError as exc:
            raise service_unavailable() from exc

    async def _put(self, found: Sequence[OpenDecision]) -> None:
        users = dict(found)
        running = await self._stores.turns.running(list(users))
        left = [one for one in users if one not in running and self._engine.running(one) is None]
        absent = await self._database.read(lambda connection: self._due.absent(connection, WorkKind.DECISION, left))
        if absent:
            users_of_absent = {one: users[one] for one in absent}
            await self._database.write(lambda connection: self._due.add_each(connection, WorkKind.DECISION, users_of_absent))

    async def _find_turns(self) -> AsyncGenerator[AbandonedTurn]:
        async for turn in self._stores.turns.abandoned():
            if not self._stores.leases.is_running(turn.decision_id):
                yield turn

    async def finish_abandoned(self, abandoned: AbandonedTurn) -> bool:
        """Take over a turn whose lease has expired and finish it; False if another process does, or if it failed."""
        try:
            if await self._is_left_alone(abandoned.decision_id):
                return False
        except GraphAgentError as exc:
            _log_unfinished(abandoned.decision_id, exc)
            return False
        since = self._stores.clock.monotonic()
        turn = await self._stores.turns.take_over(abandoned)
        if turn is None:
            return False

        session = ChatSession(self._stores, turn, since)
        run = self._engine.start(TurnStart(asks_model=False), session, turn.decision_id, user_id=turn.user_id)
        if turn.stopped:
            run.cancel()
        try:
            await run.result()
        except GraphAgentError as exc:
            _log_unfinished(turn.decision_id, exc)
            return False
        return True

    async def _is_left_alone(self, decision_id: str) -> bool:
        """True for the end of an approval request that a process with the rules which decided it may still carry out.

        This one would end it without its call; it does so only after a time, so that the conversation is not blocked for ever.
        """
        stored, requests = await self._stores.audit.load(decision_id), self._stores.approvals
        closed = stored.header.context.approval if isinstance(stored, OpenTurn) else None
        if stored is None or closed is None or requests is None or closed.end is not ApprovalState.APPROVED:
            return False
        if self._stores.clock.now() - stored.header.started_at >= ABANDONED_AFTER:
            return False
        try:
            decided_under = (await self._engine.snapshot_of(stored.header)).policy
        except (ConfigurationError, LookupError, ValueError):
            # No process can continue it.
            return False
        rules = decided_under.digests([closed.request.action.tool_name])
        policy = (await self._engine.prepare()).policy
        return bool(policy.differences(rules) or other_evidence(closed.request, requests.evidence))

    async def _close_decision(self, work: DueWork) -> Again | None:
        decision_id = work.key
        try:
            if self._engine.running(decision_id) is not None or await self._is_left_alone(decision_id):
                return Again(_LATER, "a process runs it, or one with its rules may")
            await self._engine.finish(decision_id, ask_model=False)
        except GraphAgentError as exc:
            _log_unfinished(decision_id, exc)
            return Again(_BACK_OFF, "it could not be closed; the log of the server has more")
        return None


def _id_of(turn: AbandonedTurn) -> str:
    # Each try is another attempt, so the turn itself would not be known again.
    return turn.decision_id


def _log_unfinished(decision_id: str, failure: Exception) -> None:
    """Log why a decision stays open. That another process finishes it, or that the database is away, is no error."""
    if isinstance(failure, ServiceError | TurnTakenOverError | RecordUnavailableError):
        _log.warning("decision %s is left to later, or to another process: %s", decision_id, failure)
    else:
        _log.error("decision %s could not be finished", decision_id, exc_info=failure)

"""The chat's part of a turn: its claim is kept while it runs, and the commit that closes its record stores its answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations.turn_rows import ClaimedTurn, TurnClaim
from graph_agent.chat.conversations.turns import TurnStore, in_progress
from graph_agent.chat.endings import TurnEndings
from graph_agent.chat.leases import LeaseKeeper
from graph_agent.clock import TurnClock
from graph_agent.errors import ServiceError, TurnTakenOverError, outcome_unknown
from graph_agent.models.decision import AnswerState
from graph_agent.models.record import EntryKind
from graph_agent.net.loop_throttle import LoopThrottle
from graph_agent.ports import Clock, IdSource
from graph_agent.question.approvals import ApprovalStore
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.turn.finished import FinishedTurn
from graph_agent.turn.run import TurnRun, TurnSession

_log = logging.getLogger(__name__)


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
    approvals: ApprovalStore | None = None
    approval_messages: int = 0
    """The number of earlier messages of the requester that approvers see."""
    disclosure: str | None = None
    """Says that one talks to an AI system, with the first answer of a conversation."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The files of the rules with which this process was started, by option."""


class ChatSession(TurnSession[ChatAnswer]):
    """The session of one claimed turn, whose record is open. Every failure leaves an unknown outcome."""

    def __init__(self, stores: ChatStores, turn: ClaimedTurn, since: float, arrived_at: float | None = None) -> None:
        """`since` is the monotonic time just before the turn was claimed, `arrived_at` that of its request."""
        self._stores = stores
        self._turn = turn
        self._since = since
        self.arrived_at = arrived_at
        self.clock = TurnClock(stores.clock, turn.claimed_at, stores.clock.monotonic())
        message_id = stores.ids.new()
        self._claim = TurnClaim(
            stores.turns.questions,
            turn,
            message_id,
            clock=self.clock,
            disclosure=stores.disclosure,
            files=stores.files,
            approvals=stores.approvals,
        )
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

    async def complete(self, finished: FinishedTurn | None) -> ChatAnswer:
        """Return the answer that was stored with the closing row, by this process or an earlier one."""
        assert self._claim.answer is not None, "a claimed turn has a record"
        if finished is not None and finished.decision.void_answer is AnswerState.OTHER_RULES:
            differing = next(entry.result for entry in finished.record.entries if entry.kind is EntryKind.RULES)
            text = "the yes of decision %s was not followed: %s differ from the rules under which the question was asked"
            _log.warning(text, self._turn.decision_id, ", ".join(differing))
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
        return answer

"""Fixtures: a conversation database of each kind, with a manual clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations.reading import ConversationStore
from graph_agent.chat.conversations.turn_rows import ClaimedTurn, TurnClaim
from graph_agent.chat.conversations.turns import AbandonedTurn, TurnRequest, TurnStore
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.models.decision import AgentDecision, DecisionContext, DecisionType, PendingAction
from graph_agent.models.record import SNAPSHOT_TEXTS, DecisionOpening, DecisionRecord, RecordHeader, RecordStatus
from graph_agent.ports import ConfirmationUse
from graph_agent.record.writer import DatabaseAuditWriter

LEASE = timedelta(seconds=35)


def action(clock: ManualClock, id: str = "p1") -> PendingAction:  # noqa: A002 (its field)
    """Return an action that waits for five minutes from now."""
    return PendingAction(  # type: ignore[call-arg]  # its time of expiry follows from that of its creation
        id=id, tool_name="delete_task", arguments={"task_id": "x"}, description="'x'", created_at=clock.now(), signature="s"
    )


def use_of(pending: PendingAction, decision_id: str, *, yes: bool | None = True) -> ConfirmationUse:
    """Return the use of a confirmation of ann by a decision that belongs to no chat."""
    return ConfirmationUse(pending, "ann", "c", decision_id, yes)


class StoreClient:
    """The turn store of one process, with short methods for the tests."""

    def __init__(self, database: Database, clock: ManualClock, turns_per_minute: int = 1000) -> None:
        self.database = database
        self.clock = clock
        self.audit = DatabaseAuditWriter(database, clock=clock)
        self.contexts: dict[str, DecisionContext] = {}
        """The context of each claimed turn."""
        self.turns = TurnStore(self.audit, clock=clock, ids=RandomIds(), lease=LEASE, turns_per_minute=turns_per_minute)
        self.reading = ConversationStore(database, self.turns.questions)

    async def request(self, request: TurnRequest) -> ClaimedTurn | ChatAnswer | AbandonedTurn:
        return await self.turns.claim(request, self._open)

    async def claim(self, content: str = "hello", user: str = "ann", **fields: Any) -> ClaimedTurn:
        claimed = await self.request(TurnRequest(user, content, **fields))
        assert isinstance(claimed, ClaimedTurn)
        return claimed

    async def answer(self, turn: ClaimedTurn, reply: str = "hi", pending: PendingAction | None = None) -> str:
        """Close the turn and return the reply that is stored."""
        kind = DecisionType.REQUEST_CONFIRMATION if pending else DecisionType.RESPOND_ONLY
        decision = AgentDecision(decision_type=kind, response_text=reply, pending_action=pending)
        claim = TurnClaim(self.turns.questions, turn, RandomIds().new(), clock=self.clock, disclosure=None, files={})
        record = DecisionRecord(
            header=self._header(turn.decision_id),
            entries=[],
            status=RecordStatus.COMPLETED,
            states=[],
            iterations=0,
            decision=decision,
            ended_at=self.clock.now(),
            duration_ms=0,
        )
        await self.audit.joined_with(claim).close_decision_log(record)
        assert claim.answer is not None
        return claim.answer.reply

    def _open(self, decision_id: str, context: DecisionContext, at: datetime) -> DecisionOpening:
        del at
        self.contexts[decision_id] = context
        return DecisionOpening.of(self._header(decision_id), {})

    def _header(self, decision_id: str) -> RecordHeader:
        texts: dict[str, Any] = dict.fromkeys(SNAPSHOT_TEXTS, "digest")
        context = self.contexts[decision_id]
        started_at = datetime(2026, 1, 1, tzinfo=UTC)
        return RecordHeader(decision_id=decision_id, context=context, started_at=started_at, model="none", **texts)

    async def say(self, content: str, reply: str = "hi", user: str = "ann", **fields: Any) -> ClaimedTurn:
        turn = await self.claim(content, user, **fields)
        await self.answer(turn, reply)
        return turn

    async def rows(self, table: str) -> int:
        count = await self.database.read(
            lambda connection: connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
        )
        return int(count)


@pytest.fixture
def store_with_limit(migrated_database: Database, clock: ManualClock) -> Callable[[int], StoreClient]:
    """Several simulated processes on one empty database and one clock."""
    migrated_database.clock = clock
    return lambda turns_per_minute: StoreClient(migrated_database, clock, turns_per_minute)


@pytest.fixture
def store(store_with_limit: Callable[[int], StoreClient]) -> StoreClient:
    return store_with_limit(1000)

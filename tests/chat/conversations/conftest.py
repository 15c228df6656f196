"""Fixtures: a conversation database of each kind, with a manual clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from graph_agent.chat.conversations.reading import ConversationStore
from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import TurnRequest, TurnStore
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database, migrate
from graph_agent.models.decision import AgentDecision, DecisionType, PendingAction

LEASE = timedelta(seconds=35)


class StoreClient:
    """The turn store of one process, with short methods for the tests."""

    def __init__(self, database: Database, clock: ManualClock, turns_per_minute: int) -> None:
        self.database = database
        self.clock = clock
        self.turns = TurnStore(database, clock=clock, ids=RandomIds(), lease=LEASE, turns_per_minute=turns_per_minute)
        self.reading = ConversationStore(database)

    async def claim(self, content: str = "hello", user: str = "ann", **fields: Any) -> ClaimedTurn:
        claimed = await self.turns.claim(TurnRequest(user, content, **fields))
        assert isinstance(claimed, ClaimedTurn)
        return claimed

    async def answer(self, turn: ClaimedTurn, reply: str = "hi", pending: PendingAction | None = None) -> dict[str, object]:
        kind = DecisionType.REQUEST_CONFIRMATION if pending else DecisionType.RESPOND_ONLY
        decision = AgentDecision(decision_type=kind, response_text=reply, pending_action=pending)
        return await self.turns.complete(turn, RandomIds().new(), decision, {"reply": reply})

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
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store_with_limit(database: Database, clock: ManualClock) -> Callable[[int], StoreClient]:
    """Several simulated processes on one empty database and one clock."""
    migrate(database, "graph_agent.chat.conversations")
    return lambda turns_per_minute: StoreClient(database, clock, turns_per_minute)


@pytest.fixture
def store(store_with_limit: Callable[[int], StoreClient]) -> StoreClient:
    return store_with_limit(1000)

"""A conversation database of each kind, with a clock that can be moved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.chat.conversations import ConversationStore, HeldTurn, TurnRequest, TurnStore
from graph_agent.db import Database, migrate
from graph_agent.models.decision import AgentDecision, DecisionType, PendingAction

LEASE = timedelta(seconds=35)


class Desk:
    """One process's view of the turns, and short words for what the tests do with it."""

    def __init__(self, database: Database, clock: ManualClock, turns_per_minute: int) -> None:
        self.database = database
        self.clock = clock
        self.turns = TurnStore(database, clock=clock, ids=RandomIds(), lease=LEASE, turns_per_minute=turns_per_minute)
        self.reading = ConversationStore(database)

    async def hold(self, content: str = "hello", user: str = "ann", **wish: str) -> HeldTurn:
        held = await self.turns.claim(TurnRequest(user, content, **wish))
        assert isinstance(held, HeldTurn)
        return held

    async def answer(self, turn: HeldTurn, reply: str = "hi", pending: PendingAction | None = None) -> dict[str, object]:
        kind = DecisionType.REQUEST_CONFIRMATION if pending else DecisionType.RESPOND_ONLY
        decision = AgentDecision(decision_type=kind, response_text=reply, pending_action=pending)
        return await self.turns.complete(turn, RandomIds().new(), decision, {"reply": reply})

    async def say(self, content: str, reply: str = "hi", user: str = "ann", **wish: str) -> HeldTurn:
        turn = await self.hold(content, user, **wish)
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
def desk_with_limit(database: Database, clock: ManualClock) -> Callable[[int], Desk]:
    """Desks over one empty database; each is a process of its own, all look at one clock."""
    migrate(database, "graph_agent.chat.conversations")
    return lambda turns_per_minute: Desk(database, clock, turns_per_minute)


@pytest.fixture
def desk(desk_with_limit: Callable[[int], Desk]) -> Desk:
    return desk_with_limit(1000)

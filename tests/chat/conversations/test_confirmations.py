"""A confirmation can be used for one decision only."""

from __future__ import annotations

import asyncio

import pytest

from graph_agent.chat.conversations.confirmations import ConfirmationStore
from graph_agent.db import Database, migrate
from graph_agent.errors import RecordUnavailableError


async def test_a_confirmation_is_used_by_the_first_decision_and_by_it_again(database: Database) -> None:
    migrate(database, "graph_agent.chat.conversations")
    store = ConfirmationStore(database)
    assert [await store.consume("p", decision) for decision in ("d1", "d1", "d2", "d1")] == [True, True, False, True]
    assert await store.consume("q", "d2")


async def test_one_of_many_concurrent_decisions_uses_a_confirmation(database: Database) -> None:
    migrate(database, "graph_agent.chat.conversations")
    stores = [ConfirmationStore(database) for _ in range(12)]
    used = await asyncio.gather(*(store.consume("p", f"d{n}") for n, store in enumerate(stores)))
    assert sum(used) == 1


async def test_without_the_database_a_confirmation_cannot_be_used(database: Database) -> None:
    migrate(database, "graph_agent.chat.conversations")
    database.close_now()
    with pytest.raises(RecordUnavailableError):
        await ConfirmationStore(database).consume("p", "d")

"""Pruning of turns and confirmations, on both databases."""

from __future__ import annotations

from graph_agent.chat.conversations.confirmations import ConfirmationStore
from graph_agent.chat.conversations.pruning import prune_conversations
from graph_agent.clock import ManualClock
from graph_agent.db.database import DELETED_AT_ONCE
from tests.chat.conversations.conftest import StoreClient


async def test_old_turns_and_used_confirmations_are_removed_and_messages_stay(store: StoreClient, clock: ManualClock) -> None:
    await store.say("old", idem_key="k")
    await store.claim("still running")
    confirmations = ConfirmationStore(store.database, clock=clock)
    for n in range(DELETED_AT_ONCE + 1):
        await confirmations.consume(f"p{n}", "d")
    assert await prune_conversations(store.database, clock.now()) == 0
    clock.advance(days=2)
    assert await prune_conversations(store.database, clock.now()) == DELETED_AT_ONCE + 1
    clock.advance(days=30)
    assert await prune_conversations(store.database, clock.now()) == 1
    await store.say("new", idem_key="k")
    assert await store.rows("turns") == 2
    assert await store.rows("messages") == 5
    assert await store.rows("used_confirmations") == 0

"""Pruning of turns and questions, on both databases."""

from __future__ import annotations

from graph_agent.chat.conversations.pruning import prune_conversations
from graph_agent.clock import ManualClock
from graph_agent.db.database import DELETED_AT_ONCE
from graph_agent.question.confirmations import ConfirmationStore
from tests.chat.conversations.conftest import StoreClient, action, use_of


async def test_old_turns_and_used_confirmations_are_removed_and_messages_stay(store: StoreClient, clock: ManualClock) -> None:
    await store.say("old", idem_key="k")
    await store.claim("still running")
    confirmations = ConfirmationStore(store.database)
    for n in range(DELETED_AT_ONCE + 1):
        assert await confirmations.consume(use_of(action(clock, f"p{n}"), f"d{n}"))
    clock.advance(days=29)
    assert await prune_conversations(store.database, clock.now()) == 0
    clock.advance(days=1, seconds=1)
    assert await prune_conversations(store.database, clock.now()) == DELETED_AT_ONCE + 2
    await store.say("new", idem_key="k")
    assert await store.rows("turns") == 2
    assert await store.rows("messages") == 5
    assert (await store.rows("questions"), await store.rows("answers")) == (0, 0)


async def test_a_question_that_nobody_has_answered_expires_and_is_removed_later(store: StoreClient, clock: ManualClock) -> None:
    asks = await store.claim("delete x")
    await store.answer(asks, "sure?", action(clock))
    clock.advance(minutes=5)
    await prune_conversations(store.database, clock.now())
    assert await store.rows("audience") == 0
    shown = await store.reading.one("ann", asks.conversation_id)
    assert shown.pending_action is None
    assert [one.card.state for one in shown.messages if one.card is not None] == ["expired"]
    clock.advance(days=30, seconds=1)
    await prune_conversations(store.database, clock.now())
    assert await store.rows("questions") == 0
    # What became of it is not known any more, and is not guessed.
    assert (await store.reading.one("ann", asks.conversation_id)).messages[-1].card is None

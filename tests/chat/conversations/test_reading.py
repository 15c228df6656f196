"""Pages of conversations and messages, which only their owner can read."""

from __future__ import annotations

import pytest

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.errors import ServiceError, ServiceErrorCode
from tests.chat.conversations.conftest import StoreClient


async def test_conversations_are_paged_last_used_first(store: StoreClient, clock: ManualClock) -> None:
    begun = []
    for n in range(5):
        begun.append((await store.say(f"c{n}")).conversation_id)
        clock.advance(seconds=n % 2)
    clock.advance(seconds=1)
    await store.say("again", conversation_id=begun[1])
    await store.say("someone else's", user="bob")
    first = await store.reading.page("ann", 3)
    rest = await store.reading.page("ann", 3, first.conversations[-1].id)
    assert (first.has_more, rest.has_more) == (True, False)
    titles = [conversation.title for conversation in first.conversations + rest.conversations]
    assert titles[0] == "c1"
    assert sorted(titles) == ["c0", "c1", "c2", "c3", "c4"]
    times = [conversation.updated_at for conversation in first.conversations + rest.conversations]
    assert times == sorted(times, reverse=True)


async def test_messages_are_oldest_first_and_paged_backwards(store: StoreClient) -> None:
    first = await store.say("m0", "r0")
    for n in range(1, 3):
        await store.say(f"m{n}", f"r{n}", conversation_id=first.conversation_id)
    page = await store.reading.one("ann", first.conversation_id, limit=4)
    assert ([message.content for message in page.messages], page.has_more) == (["m1", "r1", "m2", "r2"], True)
    older = await store.reading.one("ann", first.conversation_id, limit=4, before=page.messages[0].id)
    assert ([message.content for message in older.messages], older.has_more) == (["m0", "r0"], False)


async def test_a_conversation_is_shown_to_its_owner_only(store: StoreClient) -> None:
    mine = (await store.say("mine")).conversation_id
    for user, wanted, code in (
        ("bob", mine, ServiceErrorCode.ACCESS_DENIED),
        ("bob", RandomIds().new(), ServiceErrorCode.CONVERSATION_NOT_FOUND),
        ("", mine, ServiceErrorCode.ACCESS_DENIED),
    ):
        with pytest.raises(ServiceError) as refused:
            await store.reading.one(user, wanted)
        assert refused.value.code == code
        with pytest.raises(ServiceError):
            await store.reading.page(user, before=wanted)
    assert (await store.reading.page("bob")).conversations == []


async def test_a_database_that_is_gone_is_an_unavailable_service(store: StoreClient) -> None:
    store.database.close_now()
    with pytest.raises(ServiceError) as refused:
        await store.reading.page("ann")
    assert refused.value.code == ServiceErrorCode.SERVICE_UNAVAILABLE
    assert refused.value.retry_after

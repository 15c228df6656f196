"""Claims, leases, take-over and answers, on both databases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, bindparam, select, text

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations.tables import turns
from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import AbandonedTurn, TurnRequest
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.errors import ServiceError, ServiceErrorCode, TurnTakenOverError
from tests.chat.conversations.conftest import LEASE, StoreClient, action

_AFTER_THE_LEASE = {"seconds": LEASE.total_seconds()}


async def _refusal(store: StoreClient, request: TurnRequest) -> ServiceErrorCode:
    with pytest.raises(ServiceError) as refused:
        await store.request(request)
    return refused.value.code


async def test_a_claim_creates_a_conversation_titled_by_its_message(store: StoreClient) -> None:
    claimed = await store.claim("  add a task\n to call mom " + "x" * 100)
    conversation = await store.reading.one("ann", claimed.conversation_id)
    assert conversation.title == ("add a task to call mom " + "x" * 100)[:80]
    assert [(message.role, message.decision_id) for message in conversation.messages] == [("user", claimed.decision_id)]
    context = store.contexts[claimed.decision_id]
    assert (claimed.attempt, context.message_history, context.pending_confirmation) == (1, [], None)


async def test_a_turn_sees_the_last_twenty_messages_before_its_own_in_order(store: StoreClient) -> None:
    first = await store.say("m0", "r0")
    for n in range(1, 12):
        await store.say(f"m{n}", f"r{n}", conversation_id=first.conversation_id)
    claimed = await store.claim("now", conversation_id=first.conversation_id)
    history = store.contexts[claimed.decision_id].message_history
    assert [message.content for message in history] == [f"{who}{n}" for n in range(2, 12) for who in "mr"]
    assert {message.role for message in history[::2]} == {"user"}


async def test_the_same_key_gets_the_same_answer_and_adds_no_row(store: StoreClient) -> None:
    turn = await store.claim("add milk", idem_key="k")
    await store.answer(turn, "added")
    counts = [await store.rows(table) for table in ("turns", "messages", "conversations")]
    again = await store.request(TurnRequest("ann", "add milk", idem_key="k"))
    assert isinstance(again, ChatAnswer)
    assert (again.decision_id, again.reply) == (turn.decision_id, "added")
    assert [await store.rows(table) for table in ("turns", "messages", "conversations")] == counts


async def test_the_same_key_with_another_body_is_refused_whether_done_or_running(store: StoreClient) -> None:
    turn = await store.claim("add milk", idem_key="k")
    other = TurnRequest("ann", "add eggs", idem_key="k")
    assert await _refusal(store, other) == ServiceErrorCode.IDEMPOTENCY_KEY_REUSED
    await store.answer(turn)
    assert await _refusal(store, other) == ServiceErrorCode.IDEMPOTENCY_KEY_REUSED


async def test_a_repetition_of_a_running_request_is_refused_as_in_progress(store: StoreClient) -> None:
    await store.claim("add milk", idem_key="k")
    assert await _refusal(store, TurnRequest("ann", "add milk", idem_key="k")) == ServiceErrorCode.REQUEST_IN_PROGRESS


async def test_keys_of_other_users_do_not_conflict(store: StoreClient) -> None:
    turn = await store.claim("add milk", idem_key="k")
    await store.answer(turn, "ann's")
    bobs = await store.claim("add milk", user="bob", idem_key="k")
    assert bobs.decision_id != turn.decision_id


async def test_a_conversation_has_one_running_turn(store: StoreClient) -> None:
    turn = await store.claim("one")
    again = TurnRequest("ann", "two", conversation_id=turn.conversation_id)
    assert await _refusal(store, again) == ServiceErrorCode.CONVERSATION_BUSY
    await store.answer(turn)
    assert isinstance(await store.request(again), ClaimedTurn)


@pytest.mark.parametrize("user", ["bob", "ann "])
async def test_a_conversation_of_another_user_is_not_written_to(store: StoreClient, user: str) -> None:
    turn = await store.say("mine")
    assert await _refusal(store, TurnRequest(user, "yours", turn.conversation_id)) == ServiceErrorCode.ACCESS_DENIED
    assert await store.rows("turns") == 1


async def test_an_unknown_conversation_is_not_found(store: StoreClient) -> None:
    request = TurnRequest("ann", "hello", RandomIds().new())
    assert await _refusal(store, request) == ServiceErrorCode.CONVERSATION_NOT_FOUND
    assert await store.rows("turns") == 0


async def test_a_turn_is_taken_over_once_its_lease_has_expired(store: StoreClient, clock: ManualClock) -> None:
    claimed = await store.claim("add milk", idem_key="k")
    request = TurnRequest("ann", "add milk", idem_key="k")
    clock.advance(**_AFTER_THE_LEASE)
    found = await store.request(request)
    assert found == AbandonedTurn(claimed.decision_id, 1, same_request=True)
    assert [turn async for turn in store.turns.abandoned()] == [AbandonedTurn(claimed.decision_id, 1)]
    taken = await store.turns.take_over(found)
    assert taken is not None
    assert taken == ClaimedTurn(claimed.decision_id, "ann", claimed.conversation_id, 2, clock.now())
    assert await store.turns.take_over(found) is None
    assert [turn async for turn in store.turns.abandoned()] == []


async def test_only_one_of_many_takes_a_turn_over(store_with_limit: Callable[[int], StoreClient], clock: ManualClock) -> None:
    stores = [store_with_limit(100) for _ in range(8)]
    claimed = await stores[0].claim()
    clock.advance(**_AFTER_THE_LEASE)
    taken = await asyncio.gather(*(store.turns.take_over(AbandonedTurn(claimed.decision_id, 1)) for store in stores))
    assert len([turn for turn in taken if turn is not None]) == 1


async def test_a_process_that_lost_its_claim_gets_the_stored_answer(store: StoreClient, clock: ManualClock) -> None:
    slow = await store.claim("add milk")
    clock.advance(**_AFTER_THE_LEASE)
    fast = await store.turns.take_over(AbandonedTurn(slow.decision_id, 1))
    assert fast is not None
    with pytest.raises(TurnTakenOverError):
        await store.answer(slow, "slow")
    assert await store.answer(fast, "fast") == "fast"
    assert await store.answer(slow, "slow") == "fast"
    conversation = await store.reading.one("ann", slow.conversation_id)
    assert [message.content for message in conversation.messages] == ["add milk", "fast"]


async def test_a_process_that_lost_its_claim_cannot_expire_it(store: StoreClient, clock: ManualClock) -> None:
    slow = await store.claim("add milk")
    clock.advance(**_AFTER_THE_LEASE)
    assert await store.turns.take_over(AbandonedTurn(slow.decision_id, 1)) is not None
    await store.turns.expire(slow)
    assert await store.turns.running([slow.decision_id]) == {slow.decision_id}
    assert [turn async for turn in store.turns.abandoned()] == []


async def test_an_abandoned_turn_is_returned_to_a_claim_on_its_conversation(store: StoreClient, clock: ManualClock) -> None:
    claimed = await store.claim("one")
    clock.advance(**_AFTER_THE_LEASE)
    found = await store.request(TurnRequest("ann", "two", claimed.conversation_id))
    assert found == AbandonedTurn(claimed.decision_id, 1, same_request=False)


async def test_a_turn_of_an_earlier_version_that_has_no_record_is_deleted(store: StoreClient, clock: ManualClock) -> None:
    first = await store.say("hello")
    unrecorded = [await store.claim("again", conversation_id=first.conversation_id), await store.claim("alone", idem_key="k")]
    ids = {"ids": tuple(turn.decision_id for turn in unrecorded)}
    lost = text("DELETE FROM decision_logs WHERE decision_id IN :ids").bindparams(bindparam("ids", expanding=True))
    await store.database.write(lambda connection: connection.execute(lost, ids).close())
    clock.advance(**_AFTER_THE_LEASE)
    assert [await store.turns.take_over(found) async for found in store.turns.abandoned()] == [None, None]
    assert [await store.rows(table) for table in ("turns", "messages", "conversations")] == [1, 2, 1]
    await store.claim("alone", idem_key="k")


async def test_the_pending_action_goes_to_the_next_turn_only(store: StoreClient, clock: ManualClock) -> None:
    asks = await store.claim("delete x")
    await store.answer(asks, "sure?", action(clock))
    assert (await store.reading.one("ann", asks.conversation_id)).pending_action == action(clock)
    answers = await store.claim("what?", conversation_id=asks.conversation_id)
    assert store.contexts[answers.decision_id].pending_confirmation == action(clock)
    await store.answer(answers)
    assert (await store.reading.one("ann", asks.conversation_id)).pending_action is None
    late = await store.claim("yes", conversation_id=asks.conversation_id)
    assert store.contexts[late.decision_id].pending_confirmation is None


async def test_one_of_many_claims_with_one_key_succeeds(store_with_limit: Callable[[int], StoreClient]) -> None:
    stores = [store_with_limit(100) for _ in range(12)]
    claims = (store.request(TurnRequest("ann", "add milk", idem_key="k")) for store in stores)
    found = await asyncio.gather(*claims, return_exceptions=True)
    assert len([turn for turn in found if isinstance(turn, ClaimedTurn)]) == 1
    refused = {one.code for one in found if isinstance(one, ServiceError)}
    assert refused == {ServiceErrorCode.REQUEST_IN_PROGRESS}
    assert [await stores[0].rows(table) for table in ("turns", "messages", "conversations")] == [1, 1, 1]


async def test_one_of_many_claims_on_one_conversation_succeeds(store_with_limit: Callable[[int], StoreClient]) -> None:
    stores = [store_with_limit(100) for _ in range(12)]
    first = await stores[0].say("hello")
    claims = (store.request(TurnRequest("ann", f"m{n}", first.conversation_id)) for n, store in enumerate(stores))
    found = await asyncio.gather(*claims, return_exceptions=True)
    assert len([turn for turn in found if isinstance(turn, ClaimedTurn)]) == 1
    assert {one.code for one in found if isinstance(one, ServiceError)} == {ServiceErrorCode.CONVERSATION_BUSY}


async def test_turns_above_the_limit_of_a_minute_are_refused(
    store_with_limit: Callable[[int], StoreClient], clock: ManualClock
) -> None:
    store = store_with_limit(3)
    for _ in range(3):
        await store.claim()
        clock.advance(seconds=10)
    with pytest.raises(ServiceError) as refused:
        await store.claim()
    assert (refused.value.code, refused.value.retry_after) == (ServiceErrorCode.RATE_LIMITED, 30)
    assert [await store.rows(table) for table in ("turns", "messages", "conversations")] == [3, 3, 3]
    await store.claim(user="bob")
    clock.advance(seconds=30)
    await store.claim()


async def test_a_repetition_is_not_counted(store_with_limit: Callable[[int], StoreClient]) -> None:
    store = store_with_limit(1)
    await store.say("add milk", idem_key="k")
    for _ in range(3):
        assert isinstance(await store.request(TurnRequest("ann", "add milk", idem_key="k")), ChatAnswer)


async def test_a_clock_that_was_set_back_locks_no_user_out(
    store_with_limit: Callable[[int], StoreClient], clock: ManualClock
) -> None:
    store = store_with_limit(1)
    await store.say("now")
    clock.advance(hours=-1)
    await store.say("then")


@pytest.mark.usefixtures("patient_locks")
async def test_replicas_count_together(store_with_limit: Callable[[int], StoreClient]) -> None:
    stores = [store_with_limit(5) for _ in range(20)]
    claims = (store.request(TurnRequest("ann", "hello")) for store in stores)
    found = await asyncio.gather(*claims, return_exceptions=True)
    assert len([turn for turn in found if isinstance(turn, ClaimedTurn)]) == 5
    assert {one.code for one in found if isinstance(one, ServiceError)} == {ServiceErrorCode.RATE_LIMITED}


async def test_a_lease_from_a_clock_that_was_wrong_counts_as_expired(store: StoreClient, clock: ManualClock) -> None:
    clock.advance(hours=1)
    turn = await store.claim("hello", idem_key="k")
    clock.advance(hours=-1)
    found = await store.request(TurnRequest("ann", "hello", idem_key="k"))
    assert isinstance(found, AbandonedTurn)
    assert [turn async for turn in store.turns.abandoned()] == [AbandonedTurn(turn.decision_id, 1)]
    assert await store.turns.take_over(found) is not None


@pytest.mark.parametrize("skew", [-3600, -10, -0.3, 0.3, 10, 3600])
async def test_the_clocks_of_the_hosts_neither_end_nor_prolong_a_lease(
    store: StoreClient, clock: ManualClock, skew: float
) -> None:
    other_clock = ManualClock()
    other_clock.advance(seconds=skew)
    other = StoreClient(store.database, other_clock)
    request = TurnRequest("ann", "add milk", idem_key="k")
    claimed = await store.claim("add milk", idem_key="k")
    clock.advance(seconds=LEASE.total_seconds() - 0.001)
    assert await _refusal(other, request) == ServiceErrorCode.REQUEST_IN_PROGRESS
    assert await other.turns.take_over(AbandonedTurn(claimed.decision_id, 1)) is None
    assert [turn async for turn in other.turns.abandoned()] == []
    clock.advance(seconds=0.001)
    found = await other.request(request)
    assert found == AbandonedTurn(claimed.decision_id, 1, same_request=True)
    taken = await other.turns.take_over(found)
    assert taken is not None
    assert await store.turns.renew([claimed]) == {}
    clock.advance(seconds=LEASE.total_seconds() - 1)
    assert await other.turns.renew([taken]) == {taken.decision_id: False}
    clock.advance(seconds=LEASE.total_seconds() - 0.001)
    assert [turn async for turn in store.turns.abandoned()] == []


async def test_a_clock_of_the_database_that_is_set_back_a_little_ends_no_lease(store: StoreClient, clock: ManualClock) -> None:
    await store.claim()
    clock.advance(seconds=1 - LEASE.total_seconds())
    assert [turn async for turn in store.turns.abandoned()] == []


async def test_a_renewal_does_not_wait_behind_other_writes(store: StoreClient, clock: ManualClock) -> None:
    turn = await store.claim()
    clock.advance(seconds=1)
    goes_on = threading.Event()
    leases = []

    def read_lease(connection: Connection) -> None:
        goes_on.wait(10)
        leases.append(connection.execute(select(turns.c.lease_until)).scalar_one())

    # More than one commit takes on SQLite, and more than there are connections to PostgreSQL.
    others = [asyncio.ensure_future(store.database.write(read_lease)) for _ in range(100)]
    await asyncio.sleep(0)
    renewal = asyncio.ensure_future(store.turns.renew([turn]))
    await asyncio.sleep(0)
    if store.database.dialect == "postgresql":
        assert await renewal == {turn.decision_id: False}
    goes_on.set()
    await asyncio.gather(renewal, *others)
    # On SQLite the renewal is in the second of the commits.
    assert leases[0 if store.database.dialect == "postgresql" else -1] == clock.now() + LEASE

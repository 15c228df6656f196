"""Claims, leases, take-over and answers, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.chat.conversations import AbandonedTurn, AnsweredTurn, HeldTurn, TurnRequest
from graph_agent.errors import ServiceError, ServiceErrorCode, TurnTakenOverError
from graph_agent.models.decision import PendingAction
from tests.conversations.conftest import LEASE, Desk

_AFTER_THE_LEASE = {"seconds": LEASE.total_seconds()}


def _pending(clock: ManualClock) -> PendingAction:
    return PendingAction(
        id="p1", tool_name="delete_task", arguments={"task_id": "x"}, description="'x'", created_at=clock.now(), signature="s"
    )


async def _refusal(desk: Desk, request: TurnRequest) -> ServiceErrorCode:
    with pytest.raises(ServiceError) as refused:
        await desk.turns.claim(request)
    return refused.value.code


async def test_a_claim_begins_a_conversation_with_the_message_as_its_title(desk: Desk) -> None:
    held = await desk.hold("  add a task\n to call mom " + "x" * 100)
    conversation = await desk.reading.one("ann", held.conversation_id)
    assert conversation.title == ("add a task to call mom " + "x" * 100)[:80]
    assert [(message.role, message.decision_id) for message in conversation.messages] == [("user", held.decision_id)]
    assert (held.attempt, held.history, held.pending) == (1, (), None)


async def test_a_turn_sees_the_last_twenty_messages_before_its_own_in_order(desk: Desk) -> None:
    first = await desk.say("m0", "r0")
    for n in range(1, 12):
        await desk.say(f"m{n}", f"r{n}", conversation_id=first.conversation_id)
    held = await desk.hold("now", conversation_id=first.conversation_id)
    assert [message.content for message in held.history] == [f"{who}{n}" for n in range(2, 12) for who in "mr"]
    assert {message.role for message in held.history[::2]} == {"user"}


async def test_the_same_key_gets_the_same_answer_and_leaves_nothing_behind(desk: Desk) -> None:
    turn = await desk.hold("add milk", idem_key="k")
    await desk.answer(turn, "added")
    counts = [await desk.rows(table) for table in ("turns", "messages", "conversations")]
    assert await desk.turns.claim(TurnRequest("ann", "add milk", idem_key="k")) == AnsweredTurn({"reply": "added"})
    assert [await desk.rows(table) for table in ("turns", "messages", "conversations")] == counts


async def test_the_same_key_with_another_body_is_refused_whether_done_or_running(desk: Desk) -> None:
    turn = await desk.hold("add milk", idem_key="k")
    other = TurnRequest("ann", "add eggs", idem_key="k")
    assert await _refusal(desk, other) == ServiceErrorCode.IDEMPOTENCY_KEY_REUSED
    await desk.answer(turn)
    assert await _refusal(desk, other) == ServiceErrorCode.IDEMPOTENCY_KEY_REUSED


async def test_a_running_request_says_so_to_its_repetition(desk: Desk) -> None:
    await desk.hold("add milk", idem_key="k")
    assert await _refusal(desk, TurnRequest("ann", "add milk", idem_key="k")) == ServiceErrorCode.REQUEST_IN_PROGRESS


async def test_the_key_of_another_user_means_nothing(desk: Desk) -> None:
    turn = await desk.hold("add milk", idem_key="k")
    await desk.answer(turn, "ann's")
    bobs = await desk.hold("add milk", user="bob", idem_key="k")
    assert bobs.decision_id != turn.decision_id


async def test_a_conversation_has_one_running_turn(desk: Desk) -> None:
    turn = await desk.hold("one")
    again = TurnRequest("ann", "two", conversation_id=turn.conversation_id)
    assert await _refusal(desk, again) == ServiceErrorCode.CONVERSATION_BUSY
    await desk.answer(turn)
    assert isinstance(await desk.turns.claim(again), HeldTurn)


@pytest.mark.parametrize("user", ["bob", "ann "])
async def test_a_conversation_of_someone_else_is_not_written_to(desk: Desk, user: str) -> None:
    turn = await desk.say("mine")
    assert await _refusal(desk, TurnRequest(user, "yours", turn.conversation_id)) == ServiceErrorCode.ACCESS_DENIED
    assert await desk.rows("turns") == 1


async def test_an_unknown_conversation_is_not_found(desk: Desk) -> None:
    request = TurnRequest("ann", "hello", RandomIds().new())
    assert await _refusal(desk, request) == ServiceErrorCode.CONVERSATION_NOT_FOUND
    assert await desk.rows("turns") == 0


async def test_a_turn_is_taken_over_once_its_lease_has_ended(desk: Desk, clock: ManualClock) -> None:
    held = await desk.hold("add milk", idem_key="k")
    request = TurnRequest("ann", "add milk", idem_key="k")
    clock.advance(**_AFTER_THE_LEASE)
    found = await desk.turns.claim(request)
    assert found == AbandonedTurn(held.decision_id, 1, same_request=True)
    assert await desk.turns.abandoned() == [AbandonedTurn(held.decision_id, 1)]
    taken = await desk.turns.take_over(found)
    assert taken is not None
    assert (taken.decision_id, taken.conversation_id, taken.content, taken.attempt) == (
        held.decision_id,
        held.conversation_id,
        "add milk",
        2,
    )
    assert await desk.turns.take_over(found) is None
    assert await desk.turns.abandoned() == []


async def test_only_one_of_many_takes_a_turn_over(desk_with_limit: Callable[[int], Desk], clock: ManualClock) -> None:
    desks = [desk_with_limit(100) for _ in range(8)]
    held = await desks[0].hold()
    clock.advance(**_AFTER_THE_LEASE)
    taken = await asyncio.gather(*(desk.turns.take_over(AbandonedTurn(held.decision_id, 1)) for desk in desks))
    assert len([turn for turn in taken if turn is not None]) == 1


async def test_a_holder_that_lost_its_turn_gets_the_answer_of_who_was_faster(desk: Desk, clock: ManualClock) -> None:
    slow = await desk.hold("add milk")
    clock.advance(**_AFTER_THE_LEASE)
    fast = await desk.turns.take_over(AbandonedTurn(slow.decision_id, 1))
    assert fast is not None
    with pytest.raises(TurnTakenOverError):
        await desk.answer(slow, "slow")
    assert await desk.answer(fast, "fast") == {"reply": "fast"}
    assert await desk.answer(slow, "slow") == {"reply": "fast"}
    conversation = await desk.reading.one("ann", slow.conversation_id)
    assert [message.content for message in conversation.messages] == ["add milk", "fast"]


async def test_a_holder_that_lost_its_turn_can_neither_undo_nor_expire_it(desk: Desk, clock: ManualClock) -> None:
    slow = await desk.hold("add milk")
    clock.advance(**_AFTER_THE_LEASE)
    assert await desk.turns.take_over(AbandonedTurn(slow.decision_id, 1)) is not None
    await desk.turns.release(slow)
    await desk.turns.expire(slow)
    assert await desk.turns.running([slow.decision_id]) == {slow.decision_id}
    assert await desk.turns.abandoned() == []


async def test_an_abandoned_turn_bars_its_conversation_by_name(desk: Desk, clock: ManualClock) -> None:
    held = await desk.hold("one")
    clock.advance(**_AFTER_THE_LEASE)
    found = await desk.turns.claim(TurnRequest("ann", "two", held.conversation_id))
    assert found == AbandonedTurn(held.decision_id, 1, same_request=False)


async def test_a_released_turn_leaves_nothing_behind(desk: Desk) -> None:
    await desk.turns.release(await desk.hold("hello", idem_key="k"))
    assert [await desk.rows(table) for table in ("turns", "messages", "conversations")] == [0, 0, 0]
    await desk.hold("hello", idem_key="k")


async def test_a_released_turn_leaves_an_older_conversation_standing(desk: Desk) -> None:
    first = await desk.say("hello")
    await desk.turns.release(await desk.hold("again", conversation_id=first.conversation_id))
    conversation = await desk.reading.one("ann", first.conversation_id)
    assert [message.content for message in conversation.messages] == ["hello", "hi"]


async def test_the_waiting_action_goes_to_the_next_turn_and_no_further(desk: Desk, clock: ManualClock) -> None:
    asks = await desk.hold("delete x")
    await desk.answer(asks, "sure?", _pending(clock))
    assert (await desk.reading.one("ann", asks.conversation_id)).pending_action == _pending(clock)
    answers = await desk.hold("what?", conversation_id=asks.conversation_id)
    assert answers.pending == _pending(clock)
    await desk.answer(answers)
    assert (await desk.reading.one("ann", asks.conversation_id)).pending_action is None
    assert (await desk.hold("yes", conversation_id=asks.conversation_id)).pending is None


async def test_of_many_claims_with_one_key_one_holds(desk_with_limit: Callable[[int], Desk]) -> None:
    desks = [desk_with_limit(100) for _ in range(12)]
    claims = (desk.turns.claim(TurnRequest("ann", "add milk", idem_key="k")) for desk in desks)
    found = await asyncio.gather(*claims, return_exceptions=True)
    assert len([turn for turn in found if isinstance(turn, HeldTurn)]) == 1
    refused = {one.code for one in found if isinstance(one, ServiceError)}
    assert refused == {ServiceErrorCode.REQUEST_IN_PROGRESS}
    assert [await desks[0].rows(table) for table in ("turns", "messages", "conversations")] == [1, 1, 1]


async def test_of_many_claims_on_one_conversation_one_holds(desk_with_limit: Callable[[int], Desk]) -> None:
    desks = [desk_with_limit(100) for _ in range(12)]
    first = await desks[0].say("hello")
    claims = (desk.turns.claim(TurnRequest("ann", f"m{n}", first.conversation_id)) for n, desk in enumerate(desks))
    found = await asyncio.gather(*claims, return_exceptions=True)
    assert len([turn for turn in found if isinstance(turn, HeldTurn)]) == 1
    assert {one.code for one in found if isinstance(one, ServiceError)} == {ServiceErrorCode.CONVERSATION_BUSY}


async def test_no_more_turns_begin_than_a_minute_allows(desk_with_limit: Callable[[int], Desk], clock: ManualClock) -> None:
    desk = desk_with_limit(3)
    for _ in range(3):
        await desk.hold()
        clock.advance(seconds=10)
    with pytest.raises(ServiceError) as refused:
        await desk.hold()
    assert (refused.value.code, refused.value.retry_after) == (ServiceErrorCode.RATE_LIMITED, 30)
    assert [await desk.rows(table) for table in ("turns", "messages", "conversations")] == [3, 3, 3]
    await desk.hold(user="bob")
    clock.advance(seconds=30)
    await desk.hold()


async def test_a_repetition_is_not_counted(desk_with_limit: Callable[[int], Desk]) -> None:
    desk = desk_with_limit(1)
    await desk.say("add milk", idem_key="k")
    for _ in range(3):
        assert isinstance(await desk.turns.claim(TurnRequest("ann", "add milk", idem_key="k")), AnsweredTurn)


async def test_a_clock_that_was_set_back_shuts_nobody_out(desk_with_limit: Callable[[int], Desk], clock: ManualClock) -> None:
    desk = desk_with_limit(1)
    await desk.say("now")
    clock.advance(hours=-1)
    await desk.say("then")


async def test_replicas_count_together(desk_with_limit: Callable[[int], Desk]) -> None:
    desks = [desk_with_limit(5) for _ in range(20)]
    claims = (desk.turns.claim(TurnRequest("ann", "hello")) for desk in desks)
    found = await asyncio.gather(*claims, return_exceptions=True)
    assert len([turn for turn in found if isinstance(turn, HeldTurn)]) == 5
    assert {one.code for one in found if isinstance(one, ServiceError)} == {ServiceErrorCode.RATE_LIMITED}


def test_a_lease_outlives_its_turn() -> None:
    assert timedelta(seconds=30) < LEASE

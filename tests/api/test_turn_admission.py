"""The admission of turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from graph_agent.api.turn_admission import MAX_STARTING, TurnAdmission
from graph_agent.chat.answer import ChatAnswer
from graph_agent.clock import ManualClock
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.turn.handle import TurnHandle
from tests.frozen_clock import freeze_loop_time

Begin = Callable[[], Awaitable[TurnHandle[ChatAnswer]]]


class Turns:
    """Turns that begin when `may_begin` is set, after `seconds` of the clock, and run until `may_end` is set."""

    def __init__(self, clock: ManualClock, seconds: float = 0.0) -> None:
        self.clock = clock
        self.seconds = seconds
        self.may_begin = asyncio.Event()
        self.may_end = asyncio.Event()
        self.begun = 0
        self.waiting: list[asyncio.Task[object]] = []
        self.runs: list[TurnHandle[ChatAnswer]] = []

    async def begin(self) -> TurnHandle[ChatAnswer]:
        self.begun += 1
        await self.may_begin.wait()
        self.clock.advance(seconds=self.seconds)
        run: TurnHandle[ChatAnswer] = TurnHandle("a decision", "a user")
        run.start(self._work(), {})
        self.runs.append(run)
        return run

    async def end(self) -> int:
        """Let every turn begin and end; return how many had waited for too long, as on a slow machine, and were refused."""
        self.may_begin.set()
        self.may_end.set()
        results = await asyncio.gather(*self.waiting, return_exceptions=True)
        await asyncio.gather(*(run.ended() for run in self.runs))
        return sum(isinstance(result, ServiceError) for result in results)

    async def _work(self) -> ChatAnswer:
        await self.may_end.wait()
        raise RuntimeError("the answer of this turn does not matter")


def _admission(deadline: float = 20.0) -> tuple[TurnAdmission, ManualClock]:
    # The waits of turns take no time of the machine; another clock measures how long the starts take.
    freeze_loop_time(ManualClock())
    clock = ManualClock()
    return TurnAdmission(deadline, seconds=clock.monotonic), clock


async def _refused(admission: TurnAdmission, user: str, turns: Turns) -> bool:
    """True if a turn of the user is refused at once; otherwise it is left waiting."""
    task = asyncio.create_task(admission.start(user, turns.begin))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if not task.done():
        turns.waiting.append(task)
        return False
    error = task.exception()
    assert isinstance(error, ServiceError)
    assert (error.code, error.retry_after) == (ServiceErrorCode.SERVICE_UNAVAILABLE, 1)
    return True


async def test_few_turns_begin_at_once_and_the_rest_of_a_burst_is_refused() -> None:
    admission, clock = _admission()
    turns = Turns(clock)
    refusals = [await _refused(admission, f"user {number}", turns) for number in range(1500)]
    assert turns.begun == MAX_STARTING
    assert refusals.count(False) == MAX_STARTING + admission.max_waiting
    assert admission.refused == refusals.count(True) == 1500 - MAX_STARTING - admission.max_waiting
    assert not admission.has_room_for_arrival("another")
    late = await turns.end()
    assert (admission.in_flight.total, admission.waiting.total) == (0, 0)
    assert turns.begun + late == refusals.count(False)
    assert admission.has_room_for_arrival("another")


async def test_turns_that_were_admitted_too_optimistically_are_refused_before_they_start() -> None:
    admission, clock = _admission()
    turns = Turns(clock)
    for number in range(1500):
        await _refused(admission, f"user {number}", turns)
    admitted = admission.in_flight.total
    # The first starts turn out to take a second.
    turns.seconds = 32.0
    refused = await turns.end()
    assert turns.begun + refused == admitted
    assert 0 < turns.begun < admitted
    assert (admission.in_flight.total, admission.waiting.total) == (0, 0)


async def test_the_only_user_may_have_every_place() -> None:
    clock = ManualClock()
    admission = TurnAdmission(20.0, one_user=True, seconds=clock.monotonic)
    turns = Turns(clock)
    while not await _refused(admission, "local", turns):
        pass
    assert not admission.has_room_for_arrival("local")
    await turns.end()


async def test_one_user_leaves_places_for_others() -> None:
    admission, clock = _admission()
    turns = Turns(clock)
    greedy = [await _refused(admission, "greedy", turns) for _ in range(1500)]
    assert True in greedy
    assert admission.has_room_for_arrival("modest")
    assert not await _refused(admission, "modest", turns)
    await turns.end()


async def test_slow_starts_lower_the_limits_and_quick_ones_raise_them() -> None:
    admission, clock = _admission(deadline=60.0)
    turns = Turns(clock, seconds=1.0)
    turns.may_begin.set()
    turns.may_end.set()
    before = admission.max_in_flight, admission.max_waiting
    for _ in range(100):
        await admission.start("ann", turns.begin)
        await turns.runs[-1].ended()
    slow = admission.max_in_flight, admission.max_waiting
    turns.seconds = 0.001
    for _ in range(100):
        await admission.start("ann", turns.begin)
        await turns.runs[-1].ended()
    quick = admission.max_in_flight, admission.max_waiting
    # A second for each start and two for each end: ten turns fit into half of the deadline, two starts into the longest wait.
    assert slow == pytest.approx((10, 2), abs=1)
    assert slow < before < quick


async def test_bursts_at_an_idle_server_are_admitted_although_a_batch_of_starts_ends_together() -> None:
    admission, clock = _admission()
    for _ in range(20):
        turns = Turns(clock)
        assert not any([await _refused(admission, f"user {number}", turns) for number in range(50)])
        # The commits of the first batch are made together, and it ends at once; the other starts take no time.
        clock.advance(seconds=1.0)
        await turns.end()


async def test_a_turn_that_could_not_start_in_time_is_refused_and_takes_no_place() -> None:
    admission, clock = _admission(deadline=2.0)
    waits = freeze_loop_time(ManualClock())
    turns = Turns(clock)
    stuck = [asyncio.create_task(admission.start(f"user {number}", turns.begin)) for number in range(MAX_STARTING)]
    await asyncio.sleep(0)
    late = asyncio.create_task(admission.start("late", turns.begin))
    await asyncio.sleep(0)
    waits.advance(seconds=2)
    with pytest.raises(ServiceError, match="SERVICE_UNAVAILABLE"):
        await late
    assert (admission.in_flight.total, admission.waiting.total) == (MAX_STARTING, 0)
    turns.may_begin.set()
    turns.may_end.set()
    await asyncio.gather(*stuck)


async def test_a_turn_that_does_not_begin_releases_its_place() -> None:
    admission, _ = _admission()

    async def fail() -> TurnHandle[ChatAnswer]:
        raise ServiceError(ServiceErrorCode.CONVERSATION_BUSY, "busy")

    for _ in range(3 * MAX_STARTING):
        with pytest.raises(ServiceError, match="CONVERSATION_BUSY"):
            await admission.start("ann", fail)
    assert (admission.in_flight.total, admission.waiting.total) == (0, 0)

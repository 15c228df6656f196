"""The admission of turns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from graph_agent.api.turn_admission import (
    LATEST_START,
    MAX_OPEN_TURNS,
    MAX_RUNNING_TURNS,
    RUNNING_TURNS_PER_SECOND,
    SHARE,
    TurnAdmission,
)
from graph_agent.chat.answer import ChatAnswer
from graph_agent.clock import ManualClock
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.config import AgentEngineConfig
from graph_agent.turn.handle import TurnHandle
from tests.frozen_clock import freeze_loop_time

ROOT = Path(__file__).parents[2]
SECONDS = 10.0
RUNNING = int(RUNNING_TURNS_PER_SECOND * SECONDS)


class Requests:
    """Requests for turns, in time that passes only by `advance`. A turn runs until `end`."""

    def __init__(self, *, one_user: bool = False) -> None:
        self.time = freeze_loop_time(ManualClock())
        self.admission = TurnAdmission(AgentEngineConfig(timeout_seconds=SECONDS), one_user=one_user)
        self.tasks: list[asyncio.Task[object]] = []
        self.begun: list[str] = []
        self.ends: list[asyncio.Future[ChatAnswer]] = []
        self.runs: list[TurnHandle[ChatAnswer]] = []

    async def send(self, user: str, count: int = 1, *, waited: float = 0.0) -> None:
        for _ in range(count):
            begin = self.admission.start(user, lambda: self._begin(user), waited=waited)
            self.tasks.append(asyncio.create_task(begin))
        await _settle()

    async def advance(self, seconds: float) -> None:
        self.time.advance(seconds=seconds)
        await _settle()

    async def end(self, count: int) -> None:
        """End the turns that began first."""
        for _ in range(count):
            self.ends.pop(0).set_exception(RuntimeError("the answer of this turn does not matter"))
            await self.runs.pop(0).ended()
        await _settle()

    async def end_all(self) -> None:
        while self.ends:
            await self.end(1)
        assert (self.admission.open.total, self.admission.running.total) == (0, 0)

    def refused(self) -> int:
        """Return the number of refused requests, each with the error that a client can repeat it after."""
        errors = [error for task in self.tasks if task.done() and (error := task.exception()) is not None]
        for error in errors:
            assert isinstance(error, ServiceError)
            assert (error.code, error.retry_after) == (ServiceErrorCode.SERVICE_UNAVAILABLE, 1)
        assert self.admission.refused == len(errors)
        return len(errors)

    async def _begin(self, user: str) -> TurnHandle[ChatAnswer]:
        self.begun.append(user)
        end: asyncio.Future[ChatAnswer] = asyncio.get_running_loop().create_future()
        run: TurnHandle[ChatAnswer] = TurnHandle("a decision", user)
        run.start(_result(end), {})
        self.ends.append(end)
        self.runs.append(run)
        return run


async def _result(end: asyncio.Future[ChatAnswer]) -> ChatAnswer:
    return await end


async def _settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


async def test_all_turns_of_a_burst_run_and_none_is_refused_however_long_the_server_was_idle() -> None:
    requests = Requests()
    for number in range(4):
        for user in range(200):
            await requests.send(f"user {user}")
        while len(requests.begun) < 200 * (number + 1):
            await requests.end(1)
        # A pause of the machine inside of a burst, and an hour without a request.
        await requests.advance(5.0 if number % 2 else 3600.0)
        await requests.end_all()
    assert requests.refused() == 0


async def test_a_turn_that_waits_is_refused_when_the_time_to_begin_is_over_and_not_before() -> None:
    requests = Requests(one_user=True)
    await requests.send("ann", RUNNING + 2)
    await requests.send("ann", waited=2.0)
    assert len(requests.begun) == RUNNING
    await requests.advance(5.9)
    assert requests.refused() == 0
    await requests.advance(0.2)
    assert requests.refused() == 1
    await requests.end(1)
    await requests.advance(1.8)
    assert requests.refused() == 1
    await requests.advance(0.2)
    assert (requests.refused(), len(requests.begun)) == (2, RUNNING + 1)
    await requests.end_all()


async def test_requests_beyond_the_limit_on_open_turns_are_refused_at_once() -> None:
    requests = Requests(one_user=True)
    await requests.send("ann", MAX_OPEN_TURNS + 100)
    assert (requests.refused(), requests.admission.open.total) == (100, MAX_OPEN_TURNS)
    while requests.admission.open.total:
        await requests.end(1)
    await requests.send("ann", 50)
    assert (requests.refused(), len(requests.begun)) == (100, MAX_OPEN_TURNS + 50)
    await requests.end_all()


async def test_one_user_leaves_places_for_others_to_run_and_to_wait() -> None:
    requests = Requests()
    await requests.send("greedy", 2 * MAX_OPEN_TURNS)
    assert requests.refused() > 0
    await requests.send("modest")
    assert requests.begun[-1] == "modest"
    await requests.end_all()


async def test_the_user_with_the_fewest_running_turns_is_next_and_equals_take_turns() -> None:
    requests = Requests()
    # Every place is taken by users with one turn each; then three users wait.
    for number in range(RUNNING):
        await requests.send(f"user {number}")
    await requests.send("ann", 30)
    await requests.send("ben", 30)
    await requests.send("eve", 3)
    await requests.end(9)
    assert requests.begun[RUNNING:] == ["ann", "ben", "eve"] * 3
    await requests.end_all()
    assert requests.refused() == 0


async def test_a_request_that_is_cancelled_while_it_waits_leaves_the_place_to_the_next_one() -> None:
    requests = Requests(one_user=True)
    await requests.send("ann", RUNNING + 2)
    requests.tasks[RUNNING].cancel()
    await _settle()
    await requests.end(1)
    assert len(requests.begun) == RUNNING + 1

    def cancel() -> None:
        requests.tasks[RUNNING + 2].cancel()

    # This one got its place, and is cancelled before it can use it.
    await requests.send("ann", 2)
    requests.ends.pop(0).set_exception(RuntimeError("the answer of this turn does not matter"))
    run = requests.runs.pop(0)
    run.add_done_callback(cancel)
    await run.ended()
    await _settle()
    assert requests.tasks[RUNNING + 2].cancelled()
    assert requests.tasks[RUNNING + 3].done()
    await requests.end_all()


@pytest.mark.parametrize("steps", range(8))
async def test_requests_may_become_too_late_at_the_moment_in_which_a_turn_ends(steps: int) -> None:
    requests = Requests(one_user=True)
    await requests.send("ann", RUNNING + 3)
    requests.ends.pop(0).set_exception(RuntimeError("the answer of this turn does not matter"))
    for _ in range(steps):
        await asyncio.sleep(0)
    await requests.advance(8.1)
    assert requests.refused() + len(requests.begun) == RUNNING + 3
    requests.runs.pop(0)
    await requests.end_all()


async def test_a_turn_that_does_not_begin_releases_its_place() -> None:
    admission = Requests().admission

    async def fail() -> TurnHandle[ChatAnswer]:
        raise ServiceError(ServiceErrorCode.CONVERSATION_BUSY, "busy")

    for _ in range(3 * RUNNING):
        with pytest.raises(ServiceError, match="CONVERSATION_BUSY"):
            await admission.start("ann", fail)
    assert (admission.open.total, admission.running.total) == (0, 0)


@pytest.mark.parametrize(("seconds", "expected"), [(0.05, 1), (SECONDS, RUNNING), (3600.0, MAX_RUNNING_TURNS)])
def test_fewer_turns_run_if_less_time_is_left_to_close_them(seconds: float, expected: int) -> None:
    assert TurnAdmission(AgentEngineConfig(timeout_seconds=seconds)).max_running == expected


def test_the_documentation_states_the_limits_of_the_code() -> None:
    text = " ".join((ROOT / "docs/api.md").read_text(encoding="utf-8").split())
    closing = AgentEngineConfig(timeout_seconds=3600.0).closing_seconds
    assert f"A process runs up to {MAX_RUNNING_TURNS} turns at the same time" in text
    assert f"could not begin in the first {LATEST_START:.0%}".replace("%", " %") in text
    assert f"tenth ({closing:g} s at most) is kept for closing it" in text
    assert f"Up to {MAX_OPEN_TURNS:,} turns run or wait" in text
    assert f"at most {'four' if SHARE == 4 else SHARE} times as many turns as there are free places" in text

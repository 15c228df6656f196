"""Admission of turns: only as many as can finish before their deadlines, with a fair share for each user.

A burst of turns competes for one event loop: if all began at once, all of them would reach their deadline together, and none
could be closed in time. Therefore only a few begin at the same time, and the time that one start takes is measured. From it
follow the number of turns that may wait for their start, and the number of turns that may be in flight. A turn that waits for
its model costs nothing meanwhile, so what counts is the work of starting and ending it. The others are refused at once, before
anything was done for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from graph_agent.api.errors import busy
from graph_agent.chat.answer import ChatAnswer, StartedTurn
from graph_agent.errors import ServiceError

MAX_TURNS_IN_FLIGHT = 1024
MIN_TURNS_IN_FLIGHT = 8
MAX_STARTING = 32
"""The number of turns that begin at the same time. Their commits are made together."""
PLANNED_WAIT_SECONDS = 2.0
"""The wait for a start for which the last turn in a full queue is admitted; a quarter of its deadline if that is less."""
FIRST_ESTIMATE_SECONDS = 0.01
"""The assumed time of one start before the first is measured. It is long, so that no turn is admitted and refused later."""

_STARTS_PER_TURN = 3.0
"""The work of a turn, in starts: to end one takes about twice as long as to start it, measured with a model that hangs."""
_WORK_OF_DEADLINE = 0.5
"""The part of the deadline that the work of all turns in flight may take."""
_WEIGHT = 0.1
_MAX_GROWTH = 4.0
"""One slow start, such as the first of a process, raises the estimate by no more than `_WEIGHT` times this factor."""
_TOLERANCE = 2
"""A turn that found room is refused later only if turns now start less than one part in this many as fast as measured."""
SHARE = 4
"""A user may have up to this many times the places that are still free: the more are taken, the less one user may take."""


class TurnAdmission:
    """Admits turns, refuses the others with SERVICE_UNAVAILABLE, and measures how long a start takes."""

    def __init__(
        self, deadline_seconds: float, *, one_user: bool = False, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        """With `one_user` that user may take every place. `seconds` is a monotonic clock."""
        self._deadline = deadline_seconds
        self._planned_wait = min(PLANNED_WAIT_SECONDS, deadline_seconds / 4)
        # With the planned wait every second one of a full queue would be refused after it: the measured time is an average.
        self.max_wait = _TOLERANCE * self._planned_wait
        """The longest wait before a request is parsed, and the longest wait for a start, in seconds."""
        self._seconds = seconds
        self._starting = 0
        self._may_start = asyncio.Semaphore(MAX_STARTING)
        self.start_seconds = FIRST_ESTIMATE_SECONDS
        """The measured time of one start: its duration, with each moment divided by the number of starts that ran in it."""
        self._divided_seconds = 0.0
        self._divided_until = seconds()
        self.in_flight = Places(one_user=one_user)
        """The admitted turns that have not ended, with those that wait for their start."""
        self.waiting = Places(one_user=one_user)
        """The admitted turns that wait for their start."""
        self.arriving = Places(one_user=one_user)
        """The requests that wait to be parsed. Their users are not known yet: the tokens count as users."""
        self.refused = 0
        self.on_refusal: Callable[[float], None] = lambda _seconds: None
        """Called with the time between the arrival of a request and its refusal, if the request was not parsed."""

    @property
    def max_in_flight(self) -> int:
        affordable = int(self._deadline * _WORK_OF_DEADLINE / (_STARTS_PER_TURN * self.start_seconds))
        return min(MAX_TURNS_IN_FLIGHT, max(MIN_TURNS_IN_FLIGHT, affordable))

    @property
    def max_waiting(self) -> int:
        return max(1, int(self._planned_wait / self.start_seconds))

    def has_room_for_arrival(self, caller: str) -> bool:
        """True if a request may wait to be parsed. It then counts in the limits as a turn that waits for its start."""
        if self.in_flight.total + self.arriving.total >= self.max_in_flight:
            return False
        return self.arriving.has_room(caller, self.max_waiting - self.waiting.total)

    async def start(
        self, user_id: str, begin: Callable[[], Awaitable[StartedTurn]], *, has_waited: bool = False
    ) -> StartedTurn:
        """Return the result of `begin`, which starts a turn; its place is released when the turn has ended.

        `has_waited` is true for a request that found room when it arrived. Raises `ServiceError` SERVICE_UNAVAILABLE if the
        turn is not admitted, or could not start in time.
        """
        factor = _TOLERANCE if has_waited else 1
        room = self.in_flight.has_room(user_id, factor * self.max_in_flight)
        if not room or not self.waiting.has_room(user_id, factor * self.max_waiting):
            raise self.refusal()
        self.in_flight.take(user_id)
        try:
            await self._wait_for_start(user_id)
            try:
                started = await self._measure(begin)
            finally:
                self._may_start.release()
        except BaseException:
            self.in_flight.release(user_id)
            raise
        if isinstance(started, ChatAnswer):
            self.in_flight.release(user_id)
        else:
            # The turn keeps its place until it ends, which may be after the client has disconnected.
            started.add_done_callback(lambda: self.in_flight.release(user_id))
        return started

    def refusal(self, seconds: float | None = None) -> ServiceError:
        """Count a refused turn and return its error. `seconds` is the time since the request arrived, if it was not parsed."""
        self.refused += 1
        if seconds is not None:
            self.on_refusal(seconds)
        return busy()

    async def _wait_for_start(self, user_id: str) -> None:
        self.waiting.take(user_id)
        try:
            async with asyncio.timeout(self.max_wait):
                await self._may_start.acquire()
        except TimeoutError:
            raise self.refusal() from None
        finally:
            self.waiting.release(user_id)
        if self.in_flight.total - self.waiting.total > _TOLERANCE * self.max_in_flight:
            # Starts have turned out to take much longer than when this turn was admitted.
            self._may_start.release()
            raise self.refusal()

    async def _measure(self, begin: Callable[[], Awaitable[StartedTurn]]) -> StartedTurn:
        self._divide_time()
        self._starting += 1
        began = self._divided_seconds
        try:
            return await begin()
        finally:
            self._divide_time()
            self._starting -= 1
            measured = self._divided_seconds - began
            self.start_seconds += _WEIGHT * (min(measured, _MAX_GROWTH * self.start_seconds) - self.start_seconds)
            # A start that took no measurable time must not lead to a division by zero.
            self.start_seconds = max(self.start_seconds, 0.0001)

    def _divide_time(self) -> None:
        """Divide the time since the last call equally among the starts that ran in it."""
        # To divide a duration by the starts that still run at its end would charge the last of a batch for all of them.
        now = self._seconds()
        if self._starting:
            self._divided_seconds += (now - self._divided_until) / self._starting
        self._divided_until = now


class Places:
    """The places that turns or streams have taken, in total and for each user."""

    def __init__(self, *, one_user: bool) -> None:
        """`one_user`: there is only one, who may have every place."""
        self._one_user = one_user
        self.total = 0
        self._taken: dict[str, int] = {}

    def has_room(self, user_id: str, limit: int) -> bool:
        """True if one of `limit` places is free, and the user has not taken more than a fair share."""
        free = limit - self.total
        return free > 0 and (self._one_user or self._taken.get(user_id, 0) < SHARE * free)

    def take(self, user_id: str) -> None:
        self.total += 1
        self._taken[user_id] = self._taken.get(user_id, 0) + 1

    def release(self, user_id: str) -> None:
        self.total -= 1
        self._taken[user_id] -= 1
        if not self._taken[user_id]:
            del self._taken[user_id]

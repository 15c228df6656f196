"""Clocks, sources of ids, the deadline of a turn, and a timeout for work that may ignore its cancellation."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from graph_agent.ports import Clock

T = TypeVar("T")


class SystemClock:
    """The system clock in timezone-aware UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)


class ManualClock:
    """A clock that moves only when `advance` is called."""

    def __init__(self, start: datetime = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)) -> None:
        self._now = start
        self._seconds = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._seconds

    def advance(self, **amount: float) -> None:
        """Advance by a `timedelta` of these keywords. A negative one sets back the wall clock, never the monotonic clock."""
        step = timedelta(**amount)
        self._now += step
        self._seconds += max(0.0, step.total_seconds())


class TurnClock:
    """The clock of one turn: the time of the database when the turn was claimed, and the seconds that have passed since.

    The clock of the host may be wrong, or be set meanwhile; what a turn writes is compared with times of other hosts.
    """

    def __init__(self, clock: Clock, at: datetime, since: float) -> None:
        """`since` is the monotonic time of `clock` at which the database's clock was `at`."""
        self._at = at
        self._since = since
        self.monotonic = clock.monotonic

    def now(self) -> datetime:
        return self._at + timedelta(seconds=self.monotonic() - self._since)


def uuid7(at: datetime, random_bits: int) -> str:
    """Return a UUID of version 7 (RFC 9562): UUIDs sort by their time, in milliseconds. `random_bits` are 74 bits."""
    ms = int(at.timestamp() * 1000)
    high, low = random_bits >> 62, random_bits & ((1 << 62) - 1)
    return str(uuid.UUID(int=ms << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low))


class RandomIds:
    """Random UUIDs that sort by their time, so that indexes grow at one end and a table can be divided by time."""

    def new(self) -> str:
        return uuid7(datetime.now(UTC), secrets.randbits(74))


class SequentialIds:
    """UUIDs that count from 1, so that a repeated test gets the same ids."""

    def __init__(self) -> None:
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return str(uuid.UUID(int=self._count))


_deadline: ContextVar[tuple[Clock, float] | None] = ContextVar("deadline", default=None)


@contextmanager
def turn_deadline(clock: Clock, at: float) -> Iterator[None]:
    """Set the deadline of the current turn to `at`, in seconds of `clock.monotonic()`; tasks created here inherit it."""
    token = _deadline.set((clock, at))
    try:
        yield
    finally:
        _deadline.reset(token)


def time_left() -> float | None:
    """Return the seconds until the deadline of the current turn, never negative; None if no turn is running here."""
    current = _deadline.get()
    if current is None:
        return None
    clock, at = current
    return max(0.0, at - clock.monotonic())


def attempt_limit(own: float, share: float = 0.5) -> float:
    """Return the seconds that one attempt may take: its own limit, or this share of the turn's time left if that is less."""
    left = time_left()
    return own if left is None else min(own, left * share)


async def run_with_timeout(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. Raise TimeoutError after `seconds`, even if `work` ignores its cancellation.

    A cancellation that comes from inside `work`, for example from a connection that was lost, is raised as ConnectionError:
    the caller sees CancelledError only when it is itself cancelled.
    """
    task = await wait_for_task(seconds, work)
    if task is None:
        raise TimeoutError
    failure = ConnectionError("cancelled from inside") if task.cancelled() else task.exception()
    if failure is None:
        return task.result()
    if isinstance(failure, Exception):
        raise failure
    raise ConnectionError("ended from inside") from failure


async def wait_for_task(seconds: float, work: Awaitable[T]) -> asyncio.Future[T] | None:
    """Return the task of `work` once it has ended in any way; None after `seconds`: it is then cancelled, but not awaited."""
    # In a separate task, because `asyncio.timeout` does not return while the awaited work ignores its cancellation.
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(ignore_result)
    return task if task.done() else None


def ignore_result(task: asyncio.Future[Any]) -> None:
    """Mark the exception of an abandoned task as retrieved, so that the event loop does not log it."""
    if not task.cancelled():
        task.exception()

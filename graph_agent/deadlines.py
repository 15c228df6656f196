"""The deadline of a turn, and a timeout for work that may ignore its cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from graph_agent.ports import Clock

T = TypeVar("T")

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


def attempt_limit(own: float) -> float:
    """Return the seconds that one attempt may take: its own limit, or half of the turn's time left if that is less."""
    left = time_left()
    return own if left is None else min(own, left / 2)


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

"""Deadlines, and waiting for work that may not end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from graph_agent.ports import Clock

T = TypeVar("T")

_deadline: ContextVar[tuple[Clock, float] | None] = ContextVar("deadline", default=None)


@contextmanager
def turn_deadline(clock: Clock, at: float) -> Iterator[None]:
    """Within this context the turn ends at `at`, in seconds of `clock.monotonic()`."""
    token = _deadline.set((clock, at))
    try:
        yield
    finally:
        _deadline.reset(token)


def time_left() -> float | None:
    """Seconds until the current turn ends, never negative; None outside a turn."""
    current = _deadline.get()
    if current is None:
        return None
    clock, at = current
    return max(0.0, at - clock.monotonic())


def attempt_limit(own: float) -> float:
    """How long one attempt may take: its own limit, or half of what the turn has left if that is less."""
    left = time_left()
    return own if left is None else min(own, left / 2)


async def seen_through(task: asyncio.Task[T]) -> T:
    """The result of `task`. A caller who is cancelled cancels it, and goes only when it has ended in its own way."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        raise


async def answer_within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns or raises; TimeoutError after `seconds`, also where it does not let itself be cancelled.

    A cancellation that comes from inside `work`, from a connection that died, is raised as ConnectionError: only the caller's
    own passes.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(left_behind)
    if not task.done():
        raise TimeoutError
    failure = ConnectionError("cancelled from inside") if task.cancelled() else task.exception()
    if failure is None:
        return task.result()
    if isinstance(failure, Exception):
        raise failure
    raise ConnectionError("ended from inside") from failure


def left_behind(task: asyncio.Future[Any]) -> None:
    """Asking for the exception of work that nobody waits for keeps the event loop quiet about it."""
    if not task.cancelled():
        task.exception()

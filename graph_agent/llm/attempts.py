"""One call to a provider as a bounded number of attempts, each inside its own limit and all inside the turn's."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from graph_agent.errors import LLMTimeoutError
from graph_agent.llm.failures import Failure, timed_out
from graph_agent.deadlines import attempt_limit, time_left

T = TypeVar("T")

_log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.1
"""Before a second attempt where the provider named no time; up to twice that, so that many turns do not return together."""

_ROOM_FOR_AN_ATTEMPT = 0.1
"""The share of the time left that a wait must leave over."""


@asynccontextmanager
async def place(slots: asyncio.Semaphore) -> AsyncIterator[None]:
    """Within this context the call is one of those in flight.

    Waiting here is our own queue, not the provider's slowness: only the turn's end limits it. Raises `LLMTimeoutError`.
    """
    try:
        async with asyncio.timeout(time_left()):
            await slots.acquire()
    except TimeoutError as exc:
        raise LLMTimeoutError("too many calls are waiting for the model") from exc
    try:
        yield
    finally:
        slots.release()


async def attempts(
    attempt: Callable[[float], Awaitable[T]],
    translate: Callable[[Exception], Failure],
    *,
    limit: float,
    retries: int,
) -> T:
    """What `attempt(seconds)` returns, tried again up to `retries` times where the failure can pass.

    The limit stands outside whatever timeout the SDK keeps: those restart with every byte, so a drip would never end.
    Raises the translated error of the last attempt, chained from the foreign one.
    """
    for tried in range(retries + 1):
        seconds = attempt_limit(limit)
        if seconds <= 0:
            raise LLMTimeoutError("no time is left in this turn")
        try:
            async with asyncio.timeout(seconds):
                return await attempt(seconds)
        except Exception as exc:
            failure = timed_out() if isinstance(exc, TimeoutError) else translate(exc)
            # Ours and the kind of theirs, not their words: those may quote the key or the prompt.
            _log.warning("%s (%s)", failure.error.message, type(exc).__name__)
            wait = _wait(failure)
            if tried == retries or not failure.passing or not _fits(wait, limit):
                raise failure.error from exc
        await asyncio.sleep(wait)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _wait(failure: Failure) -> float:
    said = failure.error.retry_after
    return said if said is not None else PAUSE_SECONDS * random.uniform(1, 2)


def _fits(wait: float, limit: float) -> bool:
    left = time_left()
    return wait <= (limit if left is None else left) * (1 - _ROOM_FOR_AN_ATTEMPT)

"""Retries of calls to a provider. Each attempt has a time limit, and all of them end before the turn's deadline."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from graph_agent.clock import attempt_limit, time_left
from graph_agent.errors import LLMTimeoutError
from graph_agent.llm.provider_errors import Failure, StatusError, timeout_failure

T = TypeVar("T")

_log = logging.getLogger(__name__)

MIN_DELAY_SECONDS = 0.1
"""The shortest delay before a retry if the provider requests none. It is random, up to twice as long, so that concurrent turns
do not retry at the same time."""

_SHARE_FOR_THE_ATTEMPT = 0.1
"""The share of the remaining time that a delay must leave for the attempt after it."""


@asynccontextmanager
async def connection_slot(slots: asyncio.Semaphore) -> AsyncIterator[None]:
    """Occupy one of the adapter's slots for concurrent calls. Raises `LLMTimeoutError` at the turn's deadline.

    The time limit of an attempt does not include the wait for a slot.
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


async def call_with_retries(
    attempt: Callable[[float], Awaitable[T]],
    translate: Callable[[Exception], Failure],
    *,
    limit: float,
    retries: int,
) -> T:
    """Return the result of `attempt(seconds)`, called again up to `retries` times after a retryable failure.

    Raises the translated error of the last attempt, chained from the SDK's exception.
    """
    for number in range(retries + 1):
        seconds = attempt_limit(limit)
        if seconds <= 0:
            raise LLMTimeoutError("no time is left in this turn")
        try:
            # The SDKs' own timeouts restart with every byte: a server that sends a byte a second would never time out.
            async with asyncio.timeout(seconds):
                return await attempt(seconds)
        except Exception as exc:
            failure = timeout_failure() if isinstance(exc, TimeoutError) else translate(exc)
            # Our message and the status or the type of the SDK's exception; its own message may quote the key or the prompt.
            _log.warning("%s (%s)", failure.error.message, exc if isinstance(exc, StatusError) else type(exc).__name__)
            delay = _delay(failure)
            if number == retries or not failure.retryable or not _fits(delay, limit):
                raise failure.error from exc
        await asyncio.sleep(delay)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _delay(failure: Failure) -> float:
    requested = failure.error.retry_after
    return requested if requested is not None else MIN_DELAY_SECONDS * random.uniform(1, 2)


def _fits(delay: float, limit: float) -> bool:
    left = time_left()
    return delay <= (limit if left is None else left) * (1 - _SHARE_FOR_THE_ATTEMPT)

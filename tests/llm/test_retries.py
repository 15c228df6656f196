from __future__ import annotations

import asyncio
import time

import pytest

from graph_agent.clock import SystemClock, turn_deadline
from graph_agent.errors import LLMError, LLMTimeoutError, RateLimitError
from graph_agent.llm.provider_adapter import call_with_retries, connection_slot
from graph_agent.llm.provider_errors import Failure


class Provider:
    """A provider that fails with `failures` and then answers. It keeps the time limits of the attempts."""

    def __init__(self, *failures: Failure) -> None:
        self.failures = list(failures)
        self.limits: list[float] = []

    async def call(self, seconds: float) -> str:
        self.limits.append(seconds)
        if self.failures:
            raise OSError
        return "answer"

    def translate(self, exc: Exception) -> Failure:
        assert isinstance(exc, OSError)
        return self.failures.pop(0)


def limited(seconds: float | None) -> Failure:
    return Failure(RateLimitError(retry_after=seconds), retryable=seconds is not None)


async def test_a_retryable_failure_is_retried() -> None:
    provider = Provider(Failure(LLMError(), retryable=True))
    assert await call_with_retries(provider.call, provider.translate, limit=9, retries=1) == "answer"
    assert provider.limits == [9, 9]


async def test_another_failure_is_raised_at_once() -> None:
    error = LLMError("no")
    provider = Provider(Failure(error))
    with pytest.raises(LLMError) as raised:
        await call_with_retries(provider.call, provider.translate, limit=9, retries=1)
    assert raised.value is error
    assert isinstance(raised.value.__cause__, OSError)
    assert len(provider.limits) == 1


async def test_no_retry_is_made_with_a_limit_of_zero() -> None:
    provider = Provider(Failure(LLMError(), retryable=True))
    with pytest.raises(LLMError):
        await call_with_retries(provider.call, provider.translate, limit=9, retries=0)


async def test_a_delay_longer_than_the_turn_is_not_started() -> None:
    provider = Provider(limited(60))
    clock = SystemClock()
    with turn_deadline(clock, clock.monotonic() + 60), pytest.raises(RateLimitError) as raised:
        await call_with_retries(provider.call, provider.translate, limit=9, retries=1)
    assert raised.value.retry_after == 60


async def test_a_delay_that_fits_is_respected() -> None:
    provider = Provider(limited(0.05))
    began = time.monotonic()
    assert await call_with_retries(provider.call, provider.translate, limit=9, retries=1) == "answer"
    assert time.monotonic() - began >= 0.05


async def test_each_attempt_gets_at_most_half_of_the_remaining_time() -> None:
    provider = Provider(limited(0.0))
    clock = SystemClock()
    with turn_deadline(clock, clock.monotonic() + 200):
        await call_with_retries(provider.call, provider.translate, limit=900, retries=1)
    assert all(50 < seconds <= 100 for seconds in provider.limits)


async def test_a_turn_without_time_makes_no_attempt() -> None:
    provider = Provider()
    clock = SystemClock()
    with turn_deadline(clock, clock.monotonic() - 1), pytest.raises(LLMTimeoutError):
        await call_with_retries(provider.call, provider.translate, limit=9, retries=1)
    assert provider.limits == []


async def test_waiting_for_a_slot_ends_with_the_turn() -> None:
    slots = asyncio.Semaphore(0)
    clock = SystemClock()
    with turn_deadline(clock, clock.monotonic() + 0.05), pytest.raises(LLMTimeoutError):
        async with connection_slot(slots):
            raise AssertionError("there was no slot")


async def test_a_slot_is_released_after_a_failure() -> None:
    slots = asyncio.Semaphore(1)
    with pytest.raises(KeyError):
        async with connection_slot(slots):
            raise KeyError
    assert not slots.locked()

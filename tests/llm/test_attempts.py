from __future__ import annotations

import asyncio
import time

import pytest

from graph_agent.clock import SystemClock
from graph_agent.errors import LLMError, LLMTimeoutError, RateLimitError
from graph_agent.llm.attempts import attempts, place
from graph_agent.llm.failures import Failure
from graph_agent.deadlines import turn_deadline


class Provider:
    """Fails as it is told, then answers, and keeps the limits it was given."""

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
    return Failure(RateLimitError(retry_after=seconds), passing=seconds is not None)


async def test_a_failure_that_can_pass_is_tried_again() -> None:
    provider = Provider(Failure(LLMError(), passing=True))
    assert await attempts(provider.call, provider.translate, limit=9, retries=1) == "answer"
    assert provider.limits == [9, 9]


async def test_a_failure_that_cannot_pass_is_raised_at_once() -> None:
    error = LLMError("no")
    provider = Provider(Failure(error))
    with pytest.raises(LLMError) as raised:
        await attempts(provider.call, provider.translate, limit=9, retries=1)
    assert raised.value is error
    assert isinstance(raised.value.__cause__, OSError)
    assert len(provider.limits) == 1


async def test_no_retry_is_made_where_none_is_wanted() -> None:
    provider = Provider(Failure(LLMError(), passing=True))
    with pytest.raises(LLMError):
        await attempts(provider.call, provider.translate, limit=9, retries=0)


async def test_a_wait_that_the_turn_has_no_time_for_is_not_begun() -> None:
    provider = Provider(limited(60))
    clock = SystemClock()
    with turn_deadline(clock, clock.monotonic() + 60), pytest.raises(RateLimitError) as raised:
        await attempts(provider.call, provider.translate, limit=9, retries=1)
    assert raised.value.retry_after == 60


async def test_a_wait_that_fits_is_kept() -> None:
    provider = Provider(limited(0.05))
    began = time.monotonic()
    assert await attempts(provider.call, provider.translate, limit=9, retries=1) == "answer"
    assert time.monotonic() - began >= 0.05


async def test_each_attempt_gets_at_most_half_of_what_the_turn_has_left() -> None:
    provider = Provider(limited(0.0))
    clock = SystemClock()
    with turn_deadline(clock, clock.monotonic() + 200):
        await attempts(provider.call, provider.translate, limit=900, retries=1)
    assert all(50 < seconds <= 100 for seconds in provider.limits)


async def test_a_turn_without_time_makes_no_attempt() -> None:
    provider = Provider()
    clock = SystemClock()
    with turn_deadline(clock, clock.monotonic() - 1), pytest.raises(LLMTimeoutError):
        await attempts(provider.call, provider.translate, limit=9, retries=1)
    assert provider.limits == []


async def test_waiting_for_a_place_ends_with_the_turn() -> None:
    slots = asyncio.Semaphore(0)
    clock = SystemClock()
    with turn_deadline(clock, clock.monotonic() + 0.05), pytest.raises(LLMTimeoutError):
        async with place(slots):
            raise AssertionError("there was no place")


async def test_a_place_is_given_back_after_a_failure() -> None:
    slots = asyncio.Semaphore(1)
    with pytest.raises(KeyError):
        async with place(slots):
            raise KeyError
    assert not slots.locked()

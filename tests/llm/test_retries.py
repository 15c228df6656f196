from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from graph_agent.clock import ManualClock, SystemClock, turn_deadline
from graph_agent.errors import LLMError, LLMTimeoutError, RateLimitError
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.llm.provider_adapter import call_with_retries, connection_slot
from graph_agent.llm.provider_errors import Failure, timeout_failure
from graph_agent.models.llm import LLMMessage


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


async def test_an_attempt_gets_the_remaining_time_but_for_the_end_of_the_turn() -> None:
    provider = Provider(limited(0.0))
    clock = SystemClock()
    with turn_deadline(clock, clock.monotonic() + 200):
        await call_with_retries(provider.call, provider.translate, limit=900, retries=1)
    assert all(170 < seconds <= 180 for seconds in provider.limits)


@pytest.mark.parametrize(("took", "attempts"), [(20, 2), (49, 2), (51, 1), (90, 1)])
async def test_a_timeout_is_retried_only_with_as_much_time_as_the_attempt_took(took: float, attempts: int) -> None:
    clock, limits = ManualClock(), []

    async def attempt(seconds: float) -> str:
        limits.append(seconds)
        if len(limits) == 1:
            clock.advance(seconds=took)
            raise OSError
        return "answer"

    call = call_with_retries(attempt, lambda _: timeout_failure(), limit=900, retries=1)
    with turn_deadline(clock, clock.monotonic() + 100):
        if attempts == 1:
            with pytest.raises(LLMTimeoutError):
                await call
        else:
            assert await call == "answer"
    assert len(limits) == attempts


@pytest.mark.parametrize(("config", "limit"), [(LLMConfig(api_key="k"), 540), (LLMConfig(api_key="k", timeout_seconds=9), 9)])
async def test_an_attempt_has_the_time_of_the_turn_unless_it_is_set(config: LLMConfig, limit: float) -> None:
    adapter = OpenAICompatibleAdapter("k", "m", base_url="http://127.0.0.1:1", config=config)
    clock, limits = ManualClock(), []

    async def post(_: dict[str, Any], seconds: float) -> str:
        limits.append(seconds)
        return json.dumps({"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]})

    adapter._open_post = lambda http: post  # type: ignore[method-assign]  # noqa: ARG005, SLF001 - instead of waiting
    with turn_deadline(clock, clock.monotonic() + 600):
        await adapter.generate([LLMMessage(role="user", content="hello")], [])
    await adapter.aclose()
    assert limits == [limit]


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

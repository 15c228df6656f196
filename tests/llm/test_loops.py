"""Adapters in several event loops, and many calls in one."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from graph_agent.llm.config import LLMConfig
from graph_agent.llm.lines import PerLoop
from graph_agent.llm.turnstile import Turnstile
from graph_agent.models.llm import LLMMessage
from tests.llm.wire_server import late, says, serving
from tests.llm.wire_speakers import SPEAKERS, TOOL, Call, Speaker

HELLO = LLMMessage(role="user", content="hello")
each = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)


@contextmanager
def server_elsewhere(speaker: Speaker) -> Iterator[str]:
    """A server in a thread and a loop of its own: it outlives the loops of the test."""
    ready: list[str] = []
    started, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(says(speaker.answer(text="Yes."))) as wire:
            ready.append(wire.url)
            started.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait()
    try:
        yield ready[0]
    finally:
        ended.set()
        thread.join()


@each
def test_one_adapter_works_in_one_loop_after_another(speaker: Speaker) -> None:
    with server_elsewhere(speaker) as url:
        adapter = speaker.adapter(url, LLMConfig(api_key="x"))
        answers = [asyncio.run(adapter.generate([HELLO], [])).content for _ in range(3)]
    assert answers == ["Yes.", "Yes.", "Yes."]


@each
def test_one_adapter_works_in_two_loops_at_once_and_closes_both(speaker: Speaker) -> None:
    with server_elsewhere(speaker) as url:
        adapter = speaker.adapter(url, LLMConfig(api_key="x"))
        answered, closed = threading.Event(), threading.Event()

        async def first() -> None:
            await adapter.generate([HELLO], [])
            answered.set()
            await asyncio.to_thread(closed.wait)

        async def second() -> None:
            await asyncio.to_thread(answered.wait)
            await adapter.generate([HELLO], [])
            await adapter.aclose()
            await adapter.generate([HELLO], [])
            closed.set()

        thread = threading.Thread(target=asyncio.run, args=(first(),))
        thread.start()
        asyncio.run(second())
        thread.join()


@each
async def test_an_adapter_may_be_closed_unused_twice_and_used_again(speaker: Speaker) -> None:
    async with serving(says(speaker.answer(text="Yes."))) as wire:
        adapter = speaker.adapter(wire.url, LLMConfig(api_key="x"))
        await adapter.aclose()
        await adapter.generate([HELLO], [])
        await adapter.aclose()
        await adapter.aclose()
        assert (await adapter.generate([HELLO], [])).content == "Yes."
        await adapter.aclose()


def test_a_client_is_opened_once_a_loop_and_closed_with_it() -> None:
    events: list[str] = []

    def opening() -> str:
        events.append("open")
        return "client"

    async def closing(client: str) -> None:
        events.append(f"close {client}")

    lines = PerLoop(opening, closing)

    async def twice() -> None:
        assert await lines.get() == await lines.get() == "client"

    asyncio.run(twice())
    asyncio.run(twice())
    assert events == ["open", "close client"] * 2


def test_a_loop_that_was_closed_without_ceremony_is_forgotten() -> None:
    opened: list[object] = []

    def opening() -> object:
        opened.append(object())
        return opened[-1]

    async def closing(_client: object) -> None:
        raise AssertionError("its loop is gone")

    lines = PerLoop(opening, closing)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(lines.get())
    loop.close()
    other = asyncio.new_event_loop()
    assert other.run_until_complete(lines.get()) is opened[1]
    other.close()


@each
async def test_250_calls_at_once_are_all_answered_and_never_all_in_flight(speaker: Speaker) -> None:
    body = speaker.answer(calls=[Call(id="a")], finish="calls")
    async with serving(late(0.02, says(body))) as wire:
        adapter = speaker.adapter(wire.url, LLMConfig(api_key="x"))
        answers = await asyncio.gather(*(adapter.generate([HELLO], [TOOL]) for _ in range(250)))
        await adapter.aclose()
    assert all(answer == answers[0] for answer in answers)
    assert len(wire.requests) == 250
    assert wire.busiest <= 64


@each
async def test_a_hundred_calls_at_once_leave_the_loop_responsive(speaker: Speaker) -> None:
    """No trip of the loop does more than a tenth of their work; what that is in seconds, `make bench` says."""
    history = [HELLO, LLMMessage(role="assistant", content="Yes.")] * 10
    async with serving(says(speaker.answer(text="Yes."))) as wire:
        adapter = speaker.adapter(wire.url, LLMConfig(api_key="x"))
        await adapter.generate([HELLO], [TOOL])
        async with Trips() as trips:
            await asyncio.gather(*(adapter.generate([*history, HELLO], [TOOL] * 10) for _ in range(100)))
        await adapter.aclose()
    assert max(trips) < sum(trips) / 10


class Trips:
    """The work of each trip of the loop, for as long as the context lasts, in seconds of this thread's CPU.

    Not of the wall clock: what other processes take from the machine is not the adapter's doing. Nor is a collection.
    """

    async def __aenter__(self) -> list[float]:
        gc.disable()
        self._trips: list[float] = []
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)
        return self._trips

    async def __aexit__(self, *_error: object) -> None:
        gc.enable()
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self._trips.append(time.thread_time() - began)


async def test_a_turnstile_lets_one_through_on_each_trip_of_the_loop() -> None:
    turnstile = Turnstile()
    trips: list[int] = []
    trip = 0

    async def clock() -> None:
        nonlocal trip
        while True:
            trip += 1
            await asyncio.sleep(0)

    async def one() -> None:
        await turnstile.enter()
        trips.append(trip)

    ticking = asyncio.create_task(clock())
    await asyncio.gather(*(one() for _ in range(20)))
    ticking.cancel()
    assert len(set(trips)) == 20

"""Adapters in several event loops, and many calls in one loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from graph_agent.llm.config import LLMConfig
from graph_agent.llm.loop_clients import LoopClients
from graph_agent.models.llm import LLMMessage
from graph_agent.net.loop_throttle import LoopThrottle
from tests.llm.wire_apis import API, APIS, TOOL, Call
from tests.llm.wire_server import late, says, serving

HELLO = LLMMessage(role="user", content="hello")
each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


@contextmanager
def server_in_a_thread(api: API) -> Iterator[str]:
    """A server in its own thread and event loop, which outlives the loops of the test."""
    ready: list[str] = []
    started, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(says(api.answer(text="Yes."))) as wire:
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


@each_api
def test_one_adapter_works_in_one_loop_after_another(api: API) -> None:
    with server_in_a_thread(api) as url:
        adapter = api.adapter(url, LLMConfig(api_key="x"))
        answers = [asyncio.run(adapter.generate([HELLO], [])).content for _ in range(3)]
    assert answers == ["Yes.", "Yes.", "Yes."]


@each_api
def test_one_adapter_works_in_two_loops_at_once_and_closes_both(api: API) -> None:
    with server_in_a_thread(api) as url:
        adapter = api.adapter(url, LLMConfig(api_key="x"))
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


@each_api
async def test_an_adapter_can_be_closed_before_use_twice_and_used_again(api: API) -> None:
    async with serving(says(api.answer(text="Yes."))) as wire:
        adapter = api.adapter(wire.url, LLMConfig(api_key="x"))
        await adapter.aclose()
        await adapter.generate([HELLO], [])
        await adapter.aclose()
        await adapter.aclose()
        assert (await adapter.generate([HELLO], [])).content == "Yes."
        await adapter.aclose()


def test_a_client_is_opened_once_per_loop_and_closed_with_it() -> None:
    events: list[str] = []

    def open_client() -> str:
        events.append("open")
        return "client"

    async def close_client(client: str) -> None:
        events.append(f"close {client}")

    clients = LoopClients(open_client, close_client)

    async def twice() -> None:
        assert await clients.get() == await clients.get() == "client"

    asyncio.run(twice())
    asyncio.run(twice())
    assert events == ["open", "close client"] * 2


def test_the_client_of_a_loop_that_did_not_close_its_generators_is_dropped() -> None:
    opened: list[object] = []

    def open_client() -> object:
        opened.append(object())
        return opened[-1]

    async def close_client(_client: object) -> None:
        raise AssertionError("a client cannot be closed in a closed loop")

    clients = LoopClients(open_client, close_client)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(clients.get())
    loop.close()
    other = asyncio.new_event_loop()
    assert other.run_until_complete(clients.get()) is opened[1]
    other.close()


@each_api
async def test_250_concurrent_calls_all_succeed_within_the_limit_of_connections(api: API) -> None:
    body = api.answer(calls=[Call(id="a")], finish="calls")
    async with serving(late(0.02, says(body))) as wire:
        adapter = api.adapter(wire.url, LLMConfig(api_key="x"))
        answers = await asyncio.gather(*(adapter.generate([HELLO], [TOOL]) for _ in range(250)))
        await adapter.aclose()
    assert all(answer == answers[0] for answer in answers)
    assert len(wire.requests) == 250
    assert wire.busiest <= 64


@each_api
async def test_a_hundred_concurrent_calls_leave_the_event_loop_responsive(api: API) -> None:
    """No iteration of the loop does more than a tenth of the work. `make bench` measures the same in seconds."""
    history = [HELLO, LLMMessage(role="assistant", content="Yes.")] * 10
    async with serving(says(api.answer(text="Yes."))) as wire:
        adapter = api.adapter(wire.url, LLMConfig(api_key="x"))
        await adapter.generate([HELLO], [TOOL])
        async with LoopIterations() as iterations:
            await asyncio.gather(*(adapter.generate([*history, HELLO], [TOOL] * 10) for _ in range(100)))
        await adapter.aclose()
    assert max(iterations) < sum(iterations) / 10


class LoopIterations:
    """The CPU seconds of this thread in each iteration of the event loop, while the context is open.

    Wall-clock time would include other processes, and a garbage collection is not the adapter's work either.
    """

    async def __aenter__(self) -> list[float]:
        gc.disable()
        self._iterations: list[float] = []
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)
        return self._iterations

    async def __aexit__(self, *_error: object) -> None:
        gc.enable()
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self._iterations.append(time.thread_time() - began)


async def test_the_throttle_lets_one_task_pass_in_each_iteration_of_the_loop() -> None:
    throttle = LoopThrottle()
    iterations: list[int] = []
    iteration = 0

    async def clock() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    async def one() -> None:
        await throttle.wait()
        iterations.append(iteration)

    ticking = asyncio.create_task(clock())
    await asyncio.gather(*(one() for _ in range(20)))
    ticking.cancel()
    assert len(set(iterations)) == 20

"""An event loop on simulated time, in which several processes run: each can be paused and killed.

A callback belongs to the process in whose context it was scheduled. The callbacks of one process keep their order, as in
asyncio; which process continues next is drawn at random. Callbacks take no time: time passes when none is left to run.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import sys
from asyncio.events import _set_running_loop  # asyncio documents it for implementations of event loops
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

_process: ContextVar[Process] = ContextVar("process")


class _Callback(asyncio.TimerHandle):
    def run(self) -> None:
        if not self.cancelled():
            self._run()


class Process:
    """A process of the simulation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused_until = 0.0
        self.callbacks_to_live: int | None = None
        """The number of callbacks after which the process is killed; each runs to the next `await` of a task."""
        self.on_killed: Callable[[], None] | None = None
        self.ready: deque[_Callback] = deque()
        self.tasks: list[asyncio.Task[Any]] = []

    def kill(self) -> None:
        """End the process at once: none of its callbacks runs any more, so that not even a `finally` does."""
        if self.alive:
            self.alive = False
            self.ready.clear()
            if self.on_killed is not None:
                self.on_killed()

    def context(self) -> Context:
        """Return a context whose callbacks belong to this process."""
        context = copy_context()
        context.run(_process.set, self)
        return context


def current_process() -> Process:
    """Return the process whose callback is running."""
    return _process.get()


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs the callbacks of all processes. `random` decides which process continues."""

    def __init__(self, random: Random) -> None:
        self.outside = Process("outside")
        """What is never paused or killed: the clients, the network and the servers of the database, the model and the tools."""
        self._random = random
        self._now = 0.0
        self._timers: list[tuple[float, int, Process, _Callback]] = []
        self._numbers = itertools.count()
        self._processes = [self.outside]
        self._closed = False

    def run_until_complete(self, future: Any) -> Any:
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._close_generator)
        _set_running_loop(self)
        try:
            main = self.spawn(self.outside, future)
            while not main.done():
                self._run_next()
            return main.result()
        finally:
            _set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def spawn(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as a task of a process."""
        return self.create_task(work, context=process.context())

    def start_process(self, name: str) -> Process:
        process = Process(name)
        self._processes.append(process)
        return process

    def close(self) -> None:
        """Close the tasks that are left, without running their callbacks."""
        self._closed = True
        self._timers.clear()
        for process in self._processes:
            process.ready.clear()
            for task in process.tasks:
                if not task.done():
                    # A `finally` may still await something: a killed process does not do that.
                    with suppress(BaseException):
                        task.get_coro().close()
            process.tasks.clear()

    def time(self) -> float:
        return self._now

    def is_closed(self) -> bool:
        return self._closed

    def is_running(self) -> bool:
        return not self._closed

    def get_debug(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        # Without a reference a task of a killed process would be collected, and its `finally` would run.
        self._process_of(context).tasks.append(task)
        return task

    def call_soon(  # type: ignore[override]  # without the type variables of the arguments
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        process = self._process_of(context)
        handle = _Callback(self._now, callback, args, self, context)
        if process.alive:
            process.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # as above

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Callback(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), self._process_of(context), timer))
        return timer

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore exceptions that no task handles; the checks look at their effects."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by a timer that is cancelled. It is left out when its time comes."""

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.create_task(generator.aclose())

    def _process_of(self, context: Context | None) -> Process:
        return _process.get(self.outside) if context is None else context.get(_process, self.outside)

    def _run_next(self) -> None:
        now = self._now
        runnable = [process for process in self._processes if process.ready and process.paused_until <= now]
        if not runnable:
            self._pass_time()
            return
        process = runnable[0] if len(runnable) == 1 else self._random.choice(runnable)
        process.ready.popleft().run()
        if process.callbacks_to_live is not None and process.alive:
            process.callbacks_to_live -= 1
            if process.callbacks_to_live <= 0:
                process.kill()

    def _pass_time(self) -> None:
        """Go to the next moment at which something is due: a timer, or the end of a pause."""
        # Killed processes are left out from here on, but their tasks are kept.
        resumed = [process.paused_until for process in self._processes if process.ready]
        assert self._timers or resumed, "every process waits for something that never happens"
        now = min([*resumed, *(timer[0] for timer in self._timers[:1])])
        self._now = max(self._now, now)
        while self._timers and self._timers[0][0] <= self._now:
            _, _, process, timer = heapq.heappop(self._timers)
            if process.alive and not timer.cancelled():
                process.ready.append(timer)

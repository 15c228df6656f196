"""A running turn, as it is seen by the caller that started it or listens to it: its steps, its cancellation and its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from math import inf
from typing import Any, Generic, TypeVar

from graph_agent.clock import ignore_result
from graph_agent.graph.step import Step
from graph_agent.graph.topology import END
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import InterruptReason
from graph_agent.models.tools import ToolResult
from graph_agent.tools.progress import ToolProgress
from graph_agent.turn.hooks import HookedModelCall, HookedToolCall, HookList, ToolCallMode, TurnHook

T_co = TypeVar("T_co", covariant=True)

PROGRESS_SECONDS = 0.2
"""The shortest time between two reports that are shown."""


class RunningCall:
    """A call to the model, or to the tool `tool_name`, that has just begun."""

    def __init__(self, tool_name: str | None, mode: ToolCallMode | None) -> None:
        self.tool_name = tool_name
        self.mode = mode
        self._began = asyncio.get_running_loop().time()

    @property
    def ms(self) -> int:
        """The milliseconds until now."""
        return round((asyncio.get_running_loop().time() - self._began) * 1000)


class LatestProgress(TurnHook):
    """Keeps the call that is running, and what its server has reported last."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._shown_at = -inf
        self.call: RunningCall | None = None
        """None while no call runs."""
        self.latest: ToolProgress | None = None
        """None while no call runs that has reported any."""

    def before_model_call(self, call: HookedModelCall) -> None:  # noqa: ARG002 (the interface has it)
        self.call = RunningCall(None, None)
        self._on_change()

    def after_model_call(self, call: HookedModelCall, outcome: LLMResponse | BaseException) -> None:  # noqa: ARG002 (the interface has it)
        self.call = None

    def before_tool_call(self, call: HookedToolCall) -> None:
        self.call = RunningCall(call.tool_name, call.mode)
        self._on_change()

    def tool_progress(self, call: HookedToolCall | None, progress: ToolProgress) -> None:  # noqa: ARG002 (the interface has it)
        now = asyncio.get_running_loop().time()
        # A server may report as often as it likes.
        if now - self._shown_at >= PROGRESS_SECONDS:
            self._shown_at, self.latest = now, progress
            self._on_change()

    def after_tool_call(self, call: HookedToolCall, outcome: ToolResult | BaseException) -> None:  # noqa: ARG002 (the interface has it)
        self._shown_at, self.latest, self.call = -inf, None, None


class TurnHandle(Generic[T_co]):
    """The steps and the result of a turn. No caller can cancel its owner task: a client that disconnects leaves no open row."""

    def __init__(self, decision_id: str, user_id: str | None, hooks: Iterable[TurnHook] = ()) -> None:
        self.decision_id = decision_id
        self.user_id = user_id
        """None if only the record knows it."""
        self.hooks = HookList(hooks)
        self.progress = LatestProgress(self.wake_listeners)
        """Empty unless `follow_progress` was called."""
        self.deadline = 0.0
        """The deadline of the turn, in seconds of the engine's monotonic clock; 0 until the graph is started."""
        self.steps: list[Step] = []
        self.requested: asyncio.Semaphore | None = None
        """Set for a turn that is run step by step: each node but the first waits until the semaphore is released once more."""
        self.cancelled_for: InterruptReason | None = None
        self.fenced = False
        """True if another process may have this turn: this run must neither act nor write."""
        self._cancelled = asyncio.get_running_loop().create_future()
        self._news = asyncio.get_running_loop().create_future()
        """Done when listeners have something to look at, such as the next step; then there is a new one."""
        self._owner: asyncio.Task[T_co]

    def start(self, work: Coroutine[Any, Any, T_co], running: dict[TurnHandle[object], None]) -> None:
        """Run `work` as the owner task. Until it has ended, this handle is in `running`."""
        self._owner = asyncio.create_task(work)
        running[self] = None
        self.add_done_callback(lambda: running.pop(self, None))
        # The caller may be gone: the record has the result.
        self._owner.add_done_callback(ignore_result)

    def cancel(self, reason: InterruptReason = InterruptReason.CANCELLED) -> None:
        """End the turn as interrupted, unless it is ending already. The first reason counts."""
        if self.cancelled_for is None:
            self.cancelled_for = reason
            self._cancelled.set_result(None)

    def fence(self) -> None:
        """Stop the turn without closing its record: the process that takes it over continues from there."""
        self.fenced = True
        self.cancel()

    def request_step(self) -> None:
        """Let a turn that is run step by step run its next node."""
        assert self.requested is not None
        self.requested.release()

    async def result(self) -> T_co:
        """Wait for the result, or raise what the turn raised. Cancelling this call cancels the turn and waits for its end."""
        try:
            return await asyncio.shield(self._owner)
        except asyncio.CancelledError:
            self.cancel()
            await self.ended()
            raise

    async def ended(self) -> None:
        """Wait until the owner has done everything, whatever the result is."""
        await asyncio.wait({self._owner})

    @property
    def is_running(self) -> bool:
        """True until the owner has done everything."""
        return not self._owner.done()

    @property
    def failure(self) -> BaseException | None:
        """The exception that the turn raised instead of returning a result; None while it runs."""
        if not self._owner.done():
            return None
        return asyncio.CancelledError() if self._owner.cancelled() else self._owner.exception()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the run has ended."""
        self._owner.add_done_callback(lambda _: callback())

    def add_step(self, step: Step) -> None:
        """Report the work of a node."""
        self.steps.append(step)
        self.wake_listeners()
        if self.hooks:
            self.hooks.notify(TurnHook.after_node, self.hooks.turn, step)
            if step.entered != END:
                self.hooks.notify(TurnHook.before_node, self.hooks.turn, step.entered)

    def follow_progress(self) -> None:
        """Keep the progress of the calls that begin from now on; the servers of tools are then asked for it."""
        self.hooks.append(self.progress)

    def wake_listeners(self) -> None:
        """Wake every listener, so that it looks for new steps and progress."""
        self._news.set_result(None)
        self._news = asyncio.get_running_loop().create_future()

    def add_missing_steps(self, steps: Sequence[Step]) -> None:
        """Report what a walk over the record adds to the steps reported so far; nothing if it went another way."""
        if list(steps[: len(self.steps)]) == self.steps:
            for step in steps[len(self.steps) :]:
                self.add_step(step)

    async def begun(self) -> None:
        """Wait for the first step. Raise the failure of a run that has ended without one."""
        while not self.steps and not self._owner.done():
            await asyncio.wait({self._owner, self._news}, return_when=asyncio.FIRST_COMPLETED)
        if not self.steps and self.failure is not None:
            raise self.failure

    async def stream_steps(self) -> AsyncGenerator[Step]:
        """Yield every step, from the first on, until the run has ended. The turn never waits for a listener."""
        async with aclosing(self.stream_batches()) as batches:
            async for steps in batches:
                for step in steps:
                    yield step

    async def stream_batches(self, pause_seconds: float = 0) -> AsyncGenerator[list[Step]]:
        """Yield the new steps after every wake-up of the listeners, until the run has ended; sometimes there are none.

        For `pause_seconds` after a wake-up, steps are collected: fast nodes follow each other within milliseconds.
        """
        seen = 0
        while True:
            ended, news = self._owner.done(), self._news
            steps = self.steps[seen:]
            seen += len(steps)
            yield steps
            if ended:
                return
            await asyncio.wait({self._owner, news}, return_when=asyncio.FIRST_COMPLETED)
            if pause_seconds:
                await asyncio.wait({self._owner}, timeout=pause_seconds)

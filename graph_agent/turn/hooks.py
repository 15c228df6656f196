"""Lifecycle hooks: methods that a turn calls at its start and end, and around every node, model call and tool call.

Live events, OpenTelemetry spans and the output of `graph-agent step` are hooks. A hook is synchronous and quick, because the
turn waits for it; it can neither end nor change the turn. If it raises, the error is logged once, and the hook is dropped for
the rest of that turn.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Concatenate, Literal, ParamSpec, TypeVar

from graph_agent.graph.stepping import Step
from graph_agent.models.llm import LLMRequest, LLMResponse
from graph_agent.models.record import DecisionRecord, RecordHeader
from graph_agent.models.tools import ToolResult
from graph_agent.tools.progress import ToolProgress, progress_to

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

ToolCallMode = Literal["run", "settle", "preview"]


class TurnHook:
    """A hook of one turn; override the methods that you need.

    Only calls that are really made are reported: none that is refused, repeated, or replayed from the record. `outcome` is an
    exception where the call or the turn has no result: a cancellation, or a turn that was taken over or cannot be recorded.
    """

    def before_turn(self, header: RecordHeader) -> None: ...

    def after_turn(self, outcome: DecisionRecord | BaseException) -> None: ...

    def before_node(self, state: str) -> None: ...

    def after_node(self, step: Step) -> None: ...

    def before_model_call(self, request: LLMRequest) -> None: ...

    def after_model_call(self, outcome: LLMResponse | BaseException) -> None: ...

    def before_tool_call(self, tool_name: str, mode: ToolCallMode) -> None: ...

    def tool_progress(self, progress: ToolProgress) -> None: ...

    def after_tool_call(self, outcome: ToolResult | BaseException) -> None: ...


class HookList(list[TurnHook]):
    """The hooks of one turn, in the order in which they are called."""

    @property
    def _shows_progress(self) -> bool:
        """True if a hook shows progress; otherwise servers are not asked for it."""
        # A hook need not be a subclass, and may have only some of the methods.
        inherited = (None, TurnHook.tool_progress)
        return any(getattr(type(hook), "tool_progress", None) not in inherited for hook in self)

    def notify(self, method: Callable[Concatenate[TurnHook, P], None], *args: P.args, **named: P.kwargs) -> None:
        """Call `method`, which is one of `TurnHook`'s, on every hook."""
        for hook in list(self):
            try:
                getattr(hook, method.__name__)(*args, **named)
            except Exception:
                _log.exception("a %s failed in %s; it is dropped from this turn", type(hook).__name__, method.__name__)
                self[:] = [one for one in self if one is not hook]

    async def model_call(self, request: LLMRequest, call: Awaitable[LLMResponse]) -> LLMResponse:
        """Await `call` between the two hook methods of a model call."""
        self.notify(TurnHook.before_model_call, request)
        return await self._awaited(call, TurnHook.after_model_call)

    async def tool_call(self, tool_name: str, mode: ToolCallMode, call: Awaitable[ToolResult]) -> ToolResult:
        """Await `call` between the two hook methods of a tool call; while it runs, its progress is reported."""
        self.notify(TurnHook.before_tool_call, tool_name, mode)
        if not self._shows_progress:
            return await self._awaited(call, TurnHook.after_tool_call)
        with progress_to(lambda progress: self.notify(TurnHook.tool_progress, progress)):
            return await self._awaited(call, TurnHook.after_tool_call)

    async def _awaited(self, work: Awaitable[T], after: Callable[[TurnHook, T | BaseException], None]) -> T:
        try:
            outcome = await work
        except BaseException as exc:
            self.notify(after, exc)
            raise
        self.notify(after, outcome)
        return outcome

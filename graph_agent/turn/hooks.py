"""Lifecycle hooks: methods that a turn calls at its start and end, and around every node, model call and tool call.

Live events, OpenTelemetry spans and metrics, and the output of `graph-agent step` are hooks. Each method gets what it is about:
no hook needs a context variable. A hook is synchronous and quick, because the turn waits for it; it can neither end nor change
the turn. If it raises, the error is logged once, and the hook is dropped for the rest of that turn.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from graph_agent.graph.step import Step
from graph_agent.models.llm import LLMRequest, LLMResponse
from graph_agent.models.record import DecisionRecord, RecordHeader
from graph_agent.models.tools import ToolResult
from graph_agent.tools.progress import ToolProgress, progress_listener, progress_to

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

ToolCallMode = Literal["run", "settle", "preview", "read"]


@dataclass(frozen=True, slots=True, eq=False)
class HookedModelCall:
    """A call of the model that is made. The methods before and after it get the same object, so a hook can use it as a key."""

    turn: RecordHeader
    request: LLMRequest


@dataclass(frozen=True, slots=True, eq=False)
class HookedToolCall:
    """A call of a tool server that is made. The methods before, during and after it get the same object."""

    turn: RecordHeader
    tool_name: str
    arguments: Mapping[str, Any]
    mode: ToolCallMode
    """`run`; `settle`, which asks what became of a call whose outcome is unknown; `preview`, for the question to the user;
    `read`, by the runtime itself, for the conditions about another call."""


class TurnHook:
    """A hook of one turn; override the methods that you need. `turn` has the decision's id, the user, the message, the model.

    Only calls that are really made are reported: none that is refused, repeated, or replayed from the record. `outcome` is an
    exception where the call or the turn has no result: a cancellation, or a turn that was taken over or cannot be recorded.
    """

    def before_turn(self, turn: RecordHeader) -> None: ...

    def after_turn(self, turn: RecordHeader, outcome: DecisionRecord | BaseException) -> None: ...

    def before_node(self, turn: RecordHeader, state: str) -> None: ...

    def after_node(self, turn: RecordHeader, step: Step) -> None: ...

    def before_model_call(self, call: HookedModelCall) -> None: ...

    def after_model_call(self, call: HookedModelCall, outcome: LLMResponse | BaseException) -> None: ...

    def before_tool_call(self, call: HookedToolCall) -> None: ...

    def tool_progress(self, call: HookedToolCall | None, progress: ToolProgress) -> None:
        """Show the progress of a call; of the servers' start, before any call, if there is none."""

    def after_tool_call(self, call: HookedToolCall, outcome: ToolResult | BaseException) -> None: ...


class HookList(list[TurnHook]):
    """The hooks of one turn, in the order in which they are called."""

    turn: RecordHeader
    """Set before the first method is called."""

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

    async def model_call(self, call: HookedModelCall, response: Awaitable[LLMResponse]) -> LLMResponse:
        """Await the response between the two hook methods of a model call."""
        self.notify(TurnHook.before_model_call, call)
        return await self._awaited(response, lambda outcome: self.notify(TurnHook.after_model_call, call, outcome))

    async def tool_call(self, call: HookedToolCall, result: Awaitable[ToolResult]) -> ToolResult:
        """Await the result between the two hook methods of a tool call; until then, the progress of the call is reported."""
        self.notify(TurnHook.before_tool_call, call)
        with self.progress_shown(call):
            return await self._awaited(result, lambda outcome: self.notify(TurnHook.after_tool_call, call, outcome))

    def progress_shown(self, call: HookedToolCall | None = None) -> AbstractContextManager[None]:
        """Return a context in which progress is reported to the hooks, and to the listener of the caller of the turn.

        Servers are asked for progress only if a client shows it.
        """
        outer = progress_listener()
        if not self._shows_progress:
            return nullcontext()

        def report(progress: ToolProgress) -> None:
            self.notify(TurnHook.tool_progress, call, progress)
            if outer is not None:
                outer(progress)

        return progress_to(report)

    async def _awaited(self, work: Awaitable[T], after: Callable[[T | BaseException], None]) -> T:
        try:
            outcome = await work
        except BaseException as exc:
            after(exc)
            raise
        after(outcome)
        return outcome

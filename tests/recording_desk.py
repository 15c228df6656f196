"""A tool server of tests that records its calls, and has neither a ledger nor previews."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall


@dataclass
class RecordingDesk:
    """The part of a `ToolServer` that desks share; `perform` is their own."""

    answers: dict[str, Callable[[dict[str, Any]], ToolResult]] = field(default_factory=dict, kw_only=True)
    """What a tool answers instead."""
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list, kw_only=True)
    before: Callable[[str], None] = field(default=lambda _: None, kw_only=True)
    """Called before each call with the name of the tool."""

    async def start(self) -> bool:
        return True

    def perform(self, tool_name: str, given: dict[str, Any]) -> ToolResult:
        raise NotImplementedError

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        assert deadline is not None
        self.before(call.tool_name)
        self.sent.append((call.tool_name, dict(call.arguments)))
        if call.tool_name in self.answers:
            return self.answers[call.tool_name](call.arguments)
        return self.perform(call.tool_name, call.arguments)

    async def settle(self, call: Any, *, deadline: float | None = None) -> ToolResult:
        raise AssertionError(f"no call of the desk is settled: {call}, {deadline}")

    async def preview(self, tool_name: str, *rest: Any, **more: Any) -> ToolResult:
        raise AssertionError(f"the desk has no previews: {tool_name}, {rest}, {more}")

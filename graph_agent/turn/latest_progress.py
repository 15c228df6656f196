"""The progress of the call that is running, for those who follow a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from graph_agent.models.tools import ToolResult
from graph_agent.tools.progress import ToolProgress
from graph_agent.turn.hooks import TurnHook

PROGRESS_SECONDS = 0.2
"""The shortest time between two reports that are shown."""


class LatestProgress(TurnHook):
    """Keeps what the server of the running call has reported last."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._shown_at = -inf
        self.latest: ToolProgress | None = None
        """None while no call runs that has reported any."""

    def tool_progress(self, progress: ToolProgress) -> None:
        now = asyncio.get_running_loop().time()
        # A server may report as often as it likes.
        if now - self._shown_at >= PROGRESS_SECONDS:
            self._shown_at, self.latest = now, progress
            self._on_change()

    def after_tool_call(self, outcome: ToolResult | BaseException) -> None:  # noqa: ARG002 (the interface has it)
        self._shown_at, self.latest = -inf, None

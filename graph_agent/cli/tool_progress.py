"""The progress of tool calls on stderr."""

from __future__ import annotations

from graph_agent.cli.running import print_stderr
from graph_agent.reply.text import one_line
from graph_agent.tools.progress import ToolProgress
from graph_agent.turn.hooks import TurnHook

MAX_LINES = 100
"""For one turn, so that a server cannot flood the terminal."""


class ProgressLines(TurnHook):
    """Prints one line for each progress that a server reports."""

    def __init__(self) -> None:
        self._left = MAX_LINES

    def tool_progress(self, progress: ToolProgress) -> None:
        if self._left > 0:
            self._left -= 1
            print_stderr(progress_line(progress))


def progress_line(progress: ToolProgress) -> str:
    """Return `progress: 2 of 5, copying files`."""
    share = f"{progress.done:g}" if progress.total is None else f"{progress.done:g} of {progress.total:g}"
    return f"progress: {share}" + (f", {one_line(progress.message)}" if progress.message else "")

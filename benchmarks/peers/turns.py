"""The turn that every framework runs: its message, prompt, tools and answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from graph_agent.policy.constitution import Constitution

MESSAGE = "add a task to call mom"
ANSWER = "Done."
TOOL = "add_task"
PROMPT = Constitution.load().text

Turn = Callable[[], Awaitable[Any]]
"""Runs one turn."""
Conversation = Callable[[], Awaitable[int]]
"""Runs the next turn of one conversation, and returns the bytes that it stored."""


async def act(**arguments: Any) -> str:
    """A tool in the process."""
    return str(arguments)

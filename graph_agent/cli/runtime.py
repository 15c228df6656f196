"""A runtime for the commands that run turns, and how they send a message.

Only those commands import this module, which loads LangGraph and the MCP SDK.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from graph_agent.bootstrap.adapters import choose_model
from graph_agent.bootstrap.rule_settings import DatabaseRules
from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.bootstrap.stores import temporary_settings
from graph_agent.cli.running import Run, open_in_loop, print_stderr, wrong_usage
from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode
from graph_agent.reply.text import one_line
from graph_agent.settings import Settings
from graph_agent.tools.progress import ToolProgress
from graph_agent.turn.hooks import HookedToolCall, TurnHook

T = TypeVar("T")

_MAX_PROGRESS_LINES: Final = 100
"""For one turn, so that a server cannot flood the terminal."""


def check_model(settings: Settings, model: str | None) -> None:
    """Exit with a usage error if the option --model names no model."""
    if model is not None:
        try:
            choose_model(settings, model)
        except ConfigurationError as exc:
            wrong_usage(str(exc))


@contextmanager
def open_command_runtime(
    settings: Settings,
    *,
    model: str | None = None,
    timeout: float | None = None,
    temporary: bool = False,
    announce: bool = True,
    workers: int = 1,
    start_seconds: float | None = None,
) -> Iterator[tuple[Runtime, Run]]:
    """Yield a runtime and its `run`; with `announce` print on stderr which model answers, and why."""
    check_model(settings, model)
    chosen = temporary_settings(settings) if temporary else settings
    if timeout is not None:
        # Activated rules limit what a command may choose.
        most = chosen.timeout_seconds if isinstance(chosen, DatabaseRules) else timeout
        chosen = chosen.model_copy(update={"timeout_seconds": min(timeout, most)})
    with open_in_loop(open_runtime(chosen, model=model, workers=workers, start_seconds=start_seconds)) as (runtime, run):
        if announce:
            print_stderr(f"model: {runtime.adapter_reason}")
        runtime.engine.add_hook(ProgressLines)
        if not temporary:
            # Close the turns that a killed command left open. Approved calls are made by processes that serve.
            run(runtime.chat.recover_turns())
        yield runtime, run


class ProgressLines(TurnHook):
    """Prints one line for each progress that a server reports."""

    def __init__(self) -> None:
        self._left = _MAX_PROGRESS_LINES

    def tool_progress(self, call: HookedToolCall | None, progress: ToolProgress) -> None:
        # The start of a server is printed by the command, which waits for it without a turn, too.
        if call is not None and self._left > 0:
            self._left -= 1
            print_stderr(progress_line(progress))


def progress_line(progress: ToolProgress) -> str:
    """Return `progress: 2 of 5, copying files`."""
    share = f"{progress.done:g}" if progress.total is None else f"{progress.done:g} of {progress.total:g}"
    return f"progress: {share}" + (f", {one_line(progress.message)}" if progress.message else "")


_WAITS = (0.5, 1.0, 2.0)
"""Seconds before each repetition."""
_REPEATED = frozenset({ServiceErrorCode.OUTCOME_UNKNOWN, ServiceErrorCode.REQUEST_IN_PROGRESS})


async def send_with_key(send: Callable[..., Awaitable[T]], *sent: Any, **fields: Any) -> T:
    """Send a message or an answer under a new key; ask again with it while its outcome is not known.

    `send` is a method of the chat service or of its questions, and the rest are its arguments.
    """
    key = str(uuid.uuid4())
    for wait in _WAITS:
        try:
            return await send(*sent, idem_key=key, **fields)
        except ServiceError as exc:
            if exc.code not in _REPEATED:
                raise
        await asyncio.sleep(wait)
    return await send(*sent, idem_key=key, **fields)

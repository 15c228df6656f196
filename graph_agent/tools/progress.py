"""The progress of a tool call and of the start of a server, from its client to the program that shows it.

Progress extends no deadline.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A report on a running call: `done` grows up to `total`, if that is known."""

    done: float
    total: float | None = None
    message: str | None = None
    of_server: bool = True
    """False for a message of ours: that the server is starting."""


ProgressListener: TypeAlias = Callable[[ToolProgress], None]

_listener: ContextVar[ProgressListener | None] = ContextVar("progress_listener", default=None)


_logger = logging.getLogger(__name__)
_start_listener: ContextVar[Callable[[str], None]] = ContextVar("start_listener", default=_logger.info)


@contextmanager
def starts_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Report to `listener` in one line each that servers are still starting; tasks created here inherit it."""
    token = _start_listener.set(listener)
    try:
        yield
    finally:
        _start_listener.reset(token)


def report_start(servers: Sequence[str], seconds: float) -> str:
    """Report that these servers have been starting for so long, and return it: `starting files …, 12 s`.

    A running turn shows it too.
    """
    text = f"starting {', '.join(servers)} …"
    line = f"{text}, {seconds:.0f} s"
    _start_listener.get()(line)
    if (listener := _listener.get()) is not None:
        listener(ToolProgress(round(seconds), None, text, of_server=False))
    return line


@contextmanager
def progress_to(listener: ProgressListener) -> Iterator[None]:
    """Report the progress of calls to `listener`; tasks created here inherit it."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def progress_listener() -> ProgressListener | None:
    """Return the listener of the current call; None if nothing shows its progress."""
    return _listener.get()

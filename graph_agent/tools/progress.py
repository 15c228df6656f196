"""The progress of a tool call, from the client of its server to the program that shows it. Progress extends no deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A server's report on a running call: `done` grows up to `total`, if that is known. `message` is the server's text."""

    done: float
    total: float | None = None
    message: str | None = None


ProgressListener: TypeAlias = Callable[[ToolProgress], None]

_listener: ContextVar[ProgressListener | None] = ContextVar("progress_listener", default=None)


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

"""The permit under which bytes are sent to models and tools: it is looked at as late as possible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Protocol


class SendingPermit(Protocol):
    """The permission to send one thing."""

    async def renew(self) -> None:
        """Ask again whether it holds, if that was too long ago."""

    def require(self) -> None:
        """Raise `StoppedError` unless it holds at this moment."""


_permit: ContextVar[SendingPermit | None] = ContextVar("permit", default=None)


@contextmanager
def sent_under(permit: SendingPermit | None) -> Iterator[None]:
    """Let what is sent in this context, and in tasks that are created here, need `permit`."""
    token = _permit.set(permit)
    try:
        yield
    finally:
        # A coroutine that is closed after the end of its loop is in another context, which has no permit.
        with suppress(ValueError):
            _permit.reset(token)


async def require_permit() -> None:
    """Raise `StoppedError` unless the permit of this context holds. The caller sends without awaiting anything else before."""
    permit = _permit.get()
    if permit is not None:
        await permit.renew()
        # Not in `renew`: a process may be paused while that waits.
        permit.require()

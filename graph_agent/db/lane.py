"""What the two databases have in common: work goes in, a future comes out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")
Work = Callable[[Connection], T]
"""Synchronous, on a connection with an open transaction that is not its own to commit; returns plain values, never a cursor."""


class Lanes(Protocol):
    """One database's threads. Futures are already running when they are returned: cancelling one has no effect."""

    dialect: str

    def submit_write(self, work: Work[T]) -> Future[T]: ...

    def submit_read(self, work: Work[T]) -> Future[T]: ...

    def close(self) -> None:
        """Finish what was submitted, then release threads and connections."""
        ...

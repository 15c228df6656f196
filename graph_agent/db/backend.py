"""The interface of a database backend: it runs functions on its own threads and returns futures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")
Work = Callable[[Connection], T]
"""A synchronous function on a connection with an open transaction. It does not commit, and returns values that do not need
the connection."""


class Backend(Protocol):
    """The threads and connections of one database.

    The futures are returned in the state RUNNING, in which `Future.cancel` has no effect: submitted work runs to its end.
    """

    dialect: str

    def submit_write(self, work: Work[T], *, closing: bool = False) -> Future[T]:
        """Submit a write. A `closing` one, which ends a turn, does not wait for the others that are queued."""
        ...

    def submit_read(self, work: Work[T]) -> Future[T]: ...

    def close(self) -> None:
        """Finish the submitted work, then release threads and connections."""
        ...

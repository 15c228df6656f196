"""The interface of a database backend, which runs functions on its own threads and returns futures, and its error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Protocol, Self, TypeVar

from sqlalchemy import ColumnElement, Connection

from graph_agent.errors import ServiceError, service_unavailable

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

    def submit_read(self, work: Work[T]) -> Future[T]: ...

    def time(self, after: timedelta) -> ColumnElement[datetime]:
        """Return the SQL expression for a time `after` that of the database's own clock."""

    def close(self) -> None:
        """Finish the submitted work, then release threads and connections."""


class DatabaseUnavailableError(ServiceError):
    """The database is locked, full, read-only, unreachable or out of connections; a retry may succeed.

    For the caller of a service it is SERVICE_UNAVAILABLE. The `reason`, which is `str` of it, is for the log and for commands.

    `unknown` is true if a commit was sent and not answered: the transaction may have taken effect. Otherwise it was
    rolled back.
    A violated constraint is reported by `sqlalchemy.exc.IntegrityError` instead.
    """

    def __init__(self, message: str = "the database is not available", *, unknown: bool = False) -> None:
        error = service_unavailable()
        super().__init__(error.code, error.message, retry_after=error.retry_after)
        self.args = (message,)
        self.reason = message
        self.unknown = unknown

    @classmethod
    def caused_by(cls, error: BaseException, reason: str = "", *, unknown: bool = False) -> Self:
        """Return the error for a driver's exception, which becomes its cause. The `reason` may be shown."""
        unavailable = cls(f"the database is not available{reason and f': {reason}'}", unknown=unknown)
        unavailable.__cause__ = error
        return unavailable


class Submissions:
    """The base of the backends: it takes work until it is closed."""

    def __init__(self) -> None:
        self._submitting = threading.Condition()
        """Guards `_closed` and the queues of work, so that nothing is queued after `close`."""
        self._closed = False

    def _submit(self, queue: Callable[[Future[T]], object]) -> Future[T]:
        """Call `queue` with the future of the work."""
        future: Future[T] = Future()
        # A running future cannot be cancelled: submitted work runs to completion.
        future.set_running_or_notify_cancel()
        with self._submitting:
            if self._closed:
                raise DatabaseUnavailableError("the database is closed")
            queue(future)
        return future

"""The interface of a database backend, which runs functions on its own threads and gives their results, and its error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, Self, TypeVar

from sqlalchemy import ColumnElement, Connection

from graph_agent.errors import ServiceError, service_unavailable

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Work = Callable[[Connection], T]
"""A synchronous function on a connection with an open transaction. It does not commit, and returns values that do not need
the connection."""

_AFTER_COMMIT = "graph_agent_after_commit"


class Reply(Protocol[T_contra]):
    """Takes the result of submitted work, once; a `concurrent.futures.Future` is one."""

    def set_result(self, result: T_contra, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class LoopReply(Generic[T]):
    """Settles a future of the running event loop, with one wake-up of the loop. Its caller may be gone by then."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self._loop.create_future()

    def set_result(self, result: T, /) -> None:
        self._settle(self.future.set_result, result)

    def set_exception(self, exception: BaseException, /) -> None:
        self._settle(self.future.set_exception, exception)

    def _settle(self, settle: Callable[[Any], None], outcome: Any) -> None:
        def unless_cancelled() -> None:
            if not self.future.done():
                settle(outcome)

        # A closed loop has no caller any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(unless_cancelled)


def call_after_commit(connection: Connection, call: Callable[[], None]) -> None:
    """Call this on the thread of the transaction once it is committed; not if it is rolled back."""
    connection.info.setdefault(_AFTER_COMMIT, []).append(call)


def committed_calls(connection: Connection) -> list[Callable[[], None]]:
    """Return the calls of `call_after_commit` in the transaction; a backend empties the list when one begins."""
    calls: list[Callable[[], None]] = connection.info.setdefault(_AFTER_COMMIT, [])
    return calls


class Backend(Protocol):
    """The threads and connections of one database. Submitted work runs to its end, whatever becomes of its caller."""

    dialect: str

    def submit_write(self, work: Work[T], reply: Reply[T], *, closing: bool = False) -> None:
        """Submit a write. A `closing` one, which ends a turn, does not wait for the others that are queued."""

    def submit_read(self, work: Work[T], reply: Reply[T]) -> None: ...

    def time(self, after: timedelta) -> ColumnElement[datetime]:
        """Return the SQL expression for a time `after` that of the database's own clock."""

    def shifted(self, at: ColumnElement[datetime], after: timedelta) -> ColumnElement[datetime]:
        """Return the SQL expression for a time `after` another one."""

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

    def _submit(self, queue: Callable[..., object], *work: Any) -> None:
        """Call `queue` with the work."""
        with self._submitting:
            if self._closed:
                raise DatabaseUnavailableError("the database is closed")
            queue(*work)

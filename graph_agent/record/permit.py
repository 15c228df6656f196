"""The permit of a process to send, which is as old as its last read of the stops of its database."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import Any, Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.clock import ignore_result
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.errors import RecordUnavailableError, StoppedError
from graph_agent.models.stop import Sending, Stop, find_stop
from graph_agent.net.permits import SendingPermit
from graph_agent.record.stops import ended_rightly, ended_without_mac, find_open_stops
from graph_agent.record.tree.leaves import Sealer

PERMIT_SECONDS: Final = 1.5
"""For how long a process may send after it has read the stops: the longest time from a stop to the last byte."""
RENEW_SECONDS: Final = 0.5
"""The age from which on the stops are read again."""
_TRIES = 3
"""A process that is paused while it reads may find that the answer is too old."""

# Goes on while a machine sleeps, as the clock of the database does. On macOS the monotonic clock does so too.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _since_boot() -> float:
    return time.clock_gettime(_CLOCK)


class Permit:
    """The stops that a process has read, for all engines on one log. It may be used from any thread and event loop."""

    def __init__(self, database: Database, sealer: Sealer, since_boot: Callable[[], float] = _since_boot) -> None:
        """`since_boot` returns seconds that go on while the machine sleeps."""
        self._database = database
        self.sealer = sealer
        self._since_boot = since_boot
        self.renew_seconds = RENEW_SECONDS
        """The age from which on the stops are read again."""
        self._guard = threading.Lock()
        self._read_at = float("-inf")
        self._stops: tuple[Stop, ...] | None = None
        """The stops in force, as they were read last; None before the first read."""
        self._reading: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[Any]] = WeakKeyDictionary()
        """The read that is under way in an event loop."""

    def read(self, connection: Connection, *, locked: bool = False) -> Sequence[Stop]:
        """Return the stops in force, in a transaction. `locked` keeps new ones from being written until it ends.

        A stop that this process has seen goes on until it has read its end with a valid MAC: what was changed or deleted by
        hand ends no stop.
        """
        # Before the statement: the answer is at least as new.
        since = self._since_boot()
        found = find_open_stops(connection, locked=locked)
        known = self._stops
        if known is None:
            found += ended_without_mac(connection, self.sealer)
        elif known:
            numbers = {stop.number for stop in found}
            gone = [stop for stop in known if stop.number not in numbers]
            ended = ended_rightly(connection, self.sealer, [stop.number for stop in gone]) if gone else ()
            found += [stop for stop in gone if stop.number not in ended]
        with self._guard:
            if since > self._read_at:
                self._read_at, self._stops = since, tuple(found)
        return found

    def require_none(self, connection: Connection, sending: Sending, *, locked: bool = False) -> None:
        """Raise `StoppedError` if a stop is in force, in the transaction in which something begins or is intended."""
        if (stop := find_stop(self.read(connection, locked=locked), sending)) is not None:
            raise StoppedError(stop.say)

    async def renew(self) -> None:
        """Read the stops again if they were read too long ago. Raises `RecordUnavailableError`."""
        for _ in range(_TRIES):
            if self._age() < self.renew_seconds:
                return
            loop = asyncio.get_running_loop()
            if (reading := self._reading.get(loop)) is None or reading.done():
                # One read for all turns that wait. An empty context, because it belongs to none of them.
                reading = self._reading[loop] = loop.create_task(self._database.read(self.read), context=Context())
                reading.add_done_callback(ignore_result)
            try:
                await asyncio.shield(reading)
            except (DatabaseUnavailableError, SQLAlchemyError) as exc:
                raise RecordUnavailableError("the database does not say whether something is stopped") from exc

    def require(self, sending: Sending) -> None:
        """Raise `StoppedError` if something must not be sent, `RecordUnavailableError` if that is not known at this moment."""
        self.require_not_stopped(sending)
        if self._age() > PERMIT_SECONDS:
            raise RecordUnavailableError("the database has not said in time that nothing is stopped")

    def require_not_stopped(self, sending: Sending) -> None:
        """Raise `StoppedError` if something is forbidden by the stops that were read last."""
        if (stop := find_stop(self.stops, sending)) is not None:
            raise StoppedError(stop.say)

    @property
    def stops(self) -> Sequence[Stop]:
        """The stops in force, as they were read last."""
        return self._stops or ()

    def to_send(self, sending: Sending) -> SendingPermit:
        """Return the permit under which something is sent."""
        return _PermitToSend(self, sending)

    @contextmanager
    def watched(self, limit: asyncio.Timeout, sending: Sending) -> Iterator[None]:
        """Read the stops while a model call lasts. The first one that forbids it ends its time `limit` at once."""
        watch = _Watch(self, asyncio.get_running_loop(), limit, sending)
        watch.wait()
        try:
            yield
        finally:
            watch.end()

    def _age(self) -> float:
        return self._since_boot() - self._read_at


class _Watch:
    """Reads the stops every half second while a model call lasts."""

    def __init__(self, permit: Permit, loop: asyncio.AbstractEventLoop, limit: asyncio.Timeout, sending: Sending) -> None:
        self._permit, self._loop, self._limit, self._sending = permit, loop, limit, sending
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.TimerHandle | None = None

    def wait(self) -> None:
        """Look again after a while. Most calls have ended by then, so that they cost no task."""
        self._next = self._loop.call_later(RENEW_SECONDS, self._look_soon)

    def end(self) -> None:
        """Look no more."""
        if self._next is not None:
            self._next.cancel()
        if self._task is not None:
            self._task.cancel()

    def _look_soon(self) -> None:
        self._task = self._loop.create_task(self._look())

    async def _look(self) -> None:
        with suppress(RecordUnavailableError):
            await self._permit.renew()
        if find_stop(self._permit.stops, self._sending) is None:
            self.wait()
        else:
            self._limit.reschedule(self._loop.time())


class _PermitToSend:
    """The permission to send one thing; see `SendingPermit`."""

    def __init__(self, permit: Permit, sending: Sending) -> None:
        self._permit, self._sending = permit, sending

    async def renew(self) -> None:
        await self._permit.renew()

    def require(self) -> None:
        self._permit.require(self._sending)

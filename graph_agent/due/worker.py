"""The worker of a process: it does the due work that this process can do, until it is cancelled.

Each kind has slots of its own, so that none waits for another, and the lanes of a kind take turns. A commit that makes work due
wakes the worker of its process, and on PostgreSQL those of the others; otherwise a worker looks every two seconds. While work
runs, its lease is renewed. A process that stops gives back what it has taken; what a killed one had taken is due again when its
lease ends.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from sqlalchemy import Connection

from graph_agent.db import Database
from graph_agent.due.table import CLOCK_TOLERANCE, LEASE, BackOff, DueTable, DueWork, Lane
from graph_agent.due.wakeups import set_when_due
from graph_agent.errors import ServiceError
from graph_agent.ports import Clock

_log = logging.getLogger(__name__)

LONGEST_SLEEP_SECONDS = 2.0
_LEFT_SECONDS = 60.0
"""The time for which work of another table is left that could not be finished, or that another process should do."""
_RENEW_AFTER_SECONDS = LEASE.total_seconds() / 4


@dataclass(frozen=True, slots=True)
class Again:
    """Work that is not done yet."""

    wait: timedelta | BackOff | None
    """The time after which it is due again; None makes it stuck."""
    error: str = ""
    """Why, in a sentence of ours for operators."""


def _one_lane() -> Collection[str]:
    return ("",)


@dataclass(frozen=True, slots=True)
class DueHandler:
    """Does the work of one kind."""

    kind: str
    run: Callable[[DueWork], Awaitable[Again | None]]
    """Does one work; None if it is done, also if it has removed the row in a transaction of its own."""
    slots: int
    """The number of works of this kind that this process does at once."""
    back_off: BackOff
    """The waits after an exception."""
    lanes: Callable[[], Collection[str]] = _one_lane
    """Returns the lanes that this process can serve now."""


def _itself(work: Hashable) -> Hashable:
    return work


@dataclass(frozen=True, slots=True)
class OverdueHandler:
    """Does work that rows of other tables show, such as a turn whose lease has expired: no row makes it due."""

    name: str
    find: Callable[[], AsyncIterator[Hashable]]
    """Yields all work that no worker does, the oldest first, in pages: what is left to later hides nothing that is newer."""
    run: Callable[[Any], Awaitable[bool]]
    """Claims one work and does it; False if it is left to another process, or to later."""
    slots: int
    every: float
    """The seconds between two looks, unless the last one has found work."""
    key: Callable[[Any], Hashable] = _itself
    """Returns what a work is known by, also after a try that has changed it."""


class DueWorker:
    """Does due work in this process."""

    def __init__(
        self, database: Database, handlers: Sequence[DueHandler], clock: Clock, overdue: Sequence[OverdueHandler] = ()
    ) -> None:
        self._table = DueTable(database)
        self._database = database
        self._handlers = {handler.kind: handler for handler in handlers}
        self._overdue = tuple(overdue)
        self._finishing: dict[asyncio.Task[bool], tuple[str, Hashable]] = {}
        """The keys of the works of the `overdue` handlers that run."""
        self._looks: dict[str, float] = {}
        """The monotonic time of the next look of each of these handlers."""
        self._left: dict[tuple[str, Hashable], float] = {}
        """The keys of the works that were left, until a monotonic time."""
        self._clock = clock
        self._running: dict[asyncio.Task[bool], DueWork] = {}
        self._worker = str(uuid.uuid4())
        self._takes = count()
        self._turns: Counter[Lane] = Counter()
        """The number of works that were taken from each lane: those with the least are next."""
        self._changed = asyncio.Event()
        self._seen: tuple[datetime, float] | None = None
        """The time of the database, and the monotonic time of this process when it was read."""
        self._renewed = 0.0
        self._done = 0
        """The number of works that were done. Each counts itself: some end while the worker still looks for others."""

    async def serve_forever(self) -> None:
        """Do what is due, and what becomes due. A failure of the database is logged, and waited for."""
        with set_when_due(self._database, self._changed):
            try:
                while True:
                    self._changed.clear()
                    await self._sleep(await self._try_step())
            finally:
                await self._stop()

    def wake(self) -> None:
        """Let `serve_forever` look now, because another process has made work due."""
        self._changed.set()

    async def serve(self) -> int:
        """Do what is due until nothing is, and wait for it; return how many works were done.

        It has slots of its own: what `serve_forever` does meanwhile goes on, and is not waited for.
        """
        beside = DueWorker(self._database, tuple(self._handlers.values()), self._clock, self._overdue)
        return await beside._serve_until_idle()

    async def _serve_until_idle(self) -> int:
        try:
            while True:
                done = self._done
                # First, because a turn that is left open may be in the way of other work.
                await self._look()
                if not self._finishing:
                    await self._step()
                if works := [*self._finishing, *self._running]:
                    await asyncio.wait(works)
                elif self._done == done:
                    return done
        finally:
            await self._stop()

    async def _try_step(self) -> float:
        try:
            await self._look()
            return await self._step()
        except ServiceError as exc:
            _log.warning("due work waits: %s", exc.code)
        except Exception:
            _log.exception("due work waits")
        return LONGEST_SLEEP_SECONDS

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(seconds, LONGEST_SLEEP_SECONDS))):
                await self._changed.wait()

    async def _look(self) -> None:
        """Begin the work of other tables that has a free slot."""
        for handler in self._overdue:
            now = self._clock.monotonic()
            busy = [key for name, key in self._finishing.values() if name == handler.name]
            if len(busy) >= handler.slots or now < self._looks.get(handler.name, now):
                continue
            self._looks[handler.name] = now + handler.every
            self._left = {work: until for work, until in self._left.items() if until > now}
            async for work in handler.find():
                key = handler.key(work)
                if key in busy or (handler.name, key) in self._left:
                    continue
                task = asyncio.create_task(self._finish(handler, work))
                self._finishing[task] = handler.name, key
                task.add_done_callback(self._finished)
                busy.append(key)
                if len(busy) >= handler.slots:
                    break

    async def _finish(self, handler: OverdueHandler, work: Hashable) -> bool:
        is_done = False
        try:
            is_done = await handler.run(work)
        except ServiceError as exc:
            _log.warning("%s %s is left to later: %s", handler.name, work, exc.code)
        except Exception:
            _log.exception("%s %s could not be finished", handler.name, work)
        if not is_done:
            self._left[handler.name, handler.key(work)] = self._clock.monotonic() + _LEFT_SECONDS
        return is_done

    def _finished(self, task: asyncio.Task[bool]) -> None:
        name, _ = self._finishing.pop(task)
        self._done += not task.cancelled() and task.result()
        # There may be more of it than there were slots.
        self._looks.pop(name, None)
        self._changed.set()

    async def _step(self) -> float:
        """Begin what is due and has a free slot; return the seconds until more is."""
        await self._renew()
        free = {kind: handler.slots - self._busy(kind) for kind, handler in self._handlers.items()}
        lanes = [(kind, lane) for kind, slots in free.items() if slots > 0 for lane in self._handlers[kind].lanes()]
        firsts = await self._first_due(lanes)
        due = sorted((lane for lane, seconds in firsts.items() if seconds <= 0), key=self._turns.__getitem__)
        if not due:
            return min(firsts.values(), default=LONGEST_SLEEP_SECONDS)
        taken = await self._database.write(lambda connection: self._take(connection, due, free))
        for work in taken:
            self._turns[work.kind, work.lane] += 1
            self._begin(work)
        # What is left of a lane needs a slot, whose end wakes the worker.
        return LONGEST_SLEEP_SECONDS if taken else 0.1

    async def _first_due(self, lanes: Sequence[Lane]) -> dict[Lane, float]:
        now, firsts = await self._database.read(lambda connection: self._table.first_due(connection, lanes))
        if self._may_be_set_back(now) and (changed := await self._database.write(self._table.correct_after_step)):
            _log.warning("the clock of the database was set back: %d works are due now", changed)
            _, firsts = await self._database.read(lambda connection: self._table.first_due(connection, lanes))
        return firsts

    def _take(self, connection: Connection, due: Sequence[Lane], free: dict[str, int]) -> list[DueWork]:
        left, lanes, taken = dict(free), Counter(kind for kind, _ in due), list[DueWork]()
        for kind, lane in due:
            # An equal part of the slots that are left; the lanes that have been served least are first.
            wanted = -(-left[kind] // lanes[kind])
            lanes[kind] -= 1
            if wanted:
                token = f"{self._worker}:{next(self._takes)}"
                found = self._table.take(connection, kind, lane, token=token, count=wanted)
                left[kind] -= len(found)
                taken += found
        return taken

    def _begin(self, work: DueWork) -> None:
        task = asyncio.create_task(self._do(work))
        self._running[task] = work
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[bool]) -> None:
        self._running.pop(task, None)
        self._done += not task.cancelled() and task.result()
        self._changed.set()

    async def _do(self, work: DueWork) -> bool:
        """Do one work and end it, or make it due again; True if it is done."""
        handler = self._handlers[work.kind]
        try:
            again = await handler.run(work)
        except ServiceError as exc:
            again = Again(handler.back_off, f"{exc.code}")
        except Exception as exc:
            _log.exception("%s %s could not be done", work.kind, work.key)
            again = Again(handler.back_off, f"{type(exc).__name__}; the log of the server has more")
        try:
            if again is None:
                await self._database.write(lambda connection: self._table.done(connection, work))
                return True
            wait, error = again.wait, again.error
            await self._database.write(lambda connection: self._table.postpone(connection, work, wait, error))
        except ServiceError as exc:
            _log.warning("%s %s is due again after its lease: %s", work.kind, work.key, exc.code)
        return False

    async def _renew(self) -> None:
        now = self._clock.monotonic()
        works = list(self._running.values())
        if not works or now - self._renewed < _RENEW_AFTER_SECONDS:
            return
        self._renewed = now
        await self._database.write(lambda connection: self._table.renew(connection, works))

    async def _stop(self) -> None:
        """End what runs, and give it back."""
        left = dict(self._running)
        tasks = [*left, *self._finishing]
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        with suppress(ServiceError):
            await self._database.write(lambda connection: self._table.release(connection, left.values()))

    def _may_be_set_back(self, now: datetime) -> bool:
        """True at the start, and if the database's clock has fallen behind the monotonic one of this process."""
        monotonic, before = self._clock.monotonic(), self._seen
        self._seen = now, monotonic
        return before is None or now < before[0] + timedelta(seconds=monotonic - before[1]) - CLOCK_TOLERANCE

    def _busy(self, kind: str) -> int:
        return sum(work.kind == kind for work in self._running.values())

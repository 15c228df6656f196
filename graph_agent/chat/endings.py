"""The ends of turns, for the processes that follow a turn which another one runs.

A process that follows a turn says so, and the one that runs it then reports its end. A turn that is not followed from elsewhere
causes no message. A follower also reads the record every few seconds, because a message may be lost; and more often as long as
it has not received its own message, because then its connection passes no notifications on, as behind a pooler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from graph_agent.db.notifications import Notifications

SAFETY_SECONDS = 5.0
"""The time between two reads of the record while notifications arrive."""

_FOLLOWED, _ENDED = "followed", "ended"


class Follower:
    """Waits for the end of one turn."""

    def __init__(self, poll_seconds: float, safety_seconds: float) -> None:
        self._poll_seconds = poll_seconds
        self._safety_seconds = safety_seconds
        self._notified = False
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        """Return when the turn has ended, or when it is time to read the record."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._safety_seconds if self._notified else self._poll_seconds):
                await self._changed.wait()
        self._changed.clear()

    def notify(self) -> None:
        self._notified = True
        self._changed.set()


class TurnEndings:
    """Reports and receives the ends of turns."""

    def __init__(self, notifications: Notifications | None = None, *, safety_seconds: float = SAFETY_SECONDS) -> None:
        """Without notifications followers only read the record."""
        self.notifications = notifications
        self._safety_seconds = safety_seconds
        self._followers: dict[str, list[Follower]] = {}
        self._running: dict[str, bool] = {}
        """Each turn that runs in this process -> True if another process follows it."""
        self._sending: set[asyncio.Task[None]] = set()

    @contextmanager
    def report(self, decision_id: str) -> Iterator[None]:
        """Report the end of a turn at the end of this context, if another process follows it then."""
        self._running[decision_id] = False
        try:
            yield
        finally:
            if self._running.pop(decision_id, False):
                self._send(_ENDED, decision_id)

    def is_followed(self, decision_id: str) -> bool:
        """True if another process follows a turn that runs in this one."""
        return self._running.get(decision_id, False)

    @contextmanager
    def follow(self, decision_id: str, poll_seconds: float) -> Iterator[Follower]:
        """Follow a turn in this context. The caller reads the record before it waits, each time."""
        follower = Follower(poll_seconds, self._safety_seconds)
        followers = self._followers.setdefault(decision_id, [])
        followers.append(follower)
        self._send(_FOLLOWED, decision_id)
        try:
            yield follower
        finally:
            followers.remove(follower)
            if not followers:
                self._followers.pop(decision_id, None)

    def receive(self, message: str) -> None:
        """Read a notification of a process, which may be this one."""
        kind, _, decision_id = message.partition(":")
        if kind == _FOLLOWED and decision_id in self._running:
            self._running[decision_id] = True
        for follower in self._followers.get(decision_id, []):
            follower.notify()

    def _send(self, kind: str, decision_id: str) -> None:
        if self.notifications is None:
            return
        sending = asyncio.create_task(self.notifications.send([f"{kind}:{decision_id}"]))
        # The event loop itself keeps only a weak reference to a task.
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

"""Admission of turns: a limit on those that run, a queue with a fair share for each user, and a limit on both together.

If all turns of a burst ran at once they would compete for one event loop, and all would reach their deadlines together.
Therefore the others wait. A request whose turn could not begin in the first four fifths of its deadline is refused then, and no
sooner: whether a turn will end in time for it is not known before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from graph_agent.api.errors import busy
from graph_agent.chat.answer import ChatAnswer, StartedTurn
from graph_agent.errors import ServiceError
from graph_agent.models.config import AgentEngineConfig

MAX_OPEN_TURNS = 1024
"""The number of turns that run or wait. It bounds the memory of a process."""
MAX_RUNNING_TURNS = 128
"""The number of turns that run at the same time: twice the calls that an adapter of a model makes at the same time."""
RUNNING_TURNS_PER_SECOND = 8
"""The same for each second of a short deadline: if the model hangs, all that run must be closed in the end of this time."""
LATEST_START = 0.8
"""The share of the deadline in which a turn must begin.

A model that hangs fails all turns that run shortly before their deadline. If others began then, they would have no time for a
model either, and would delay the ends of the first ones.
"""
ARRIVED_AT = "arrived_at"
"""The key in `request.state` under which the server stores the time of the event loop at which the request was complete."""
SHARE = 4
"""A user may have up to this many times the places that are still free: the more are taken, the less one user may take."""


class Places:
    """The places that turns or streams have taken, in total and for each user."""

    def __init__(self, *, one_user: bool) -> None:
        """`one_user`: there is only one, who may have every place."""
        self._one_user = one_user
        self.total = 0
        self._taken: dict[str, int] = {}

    def taken(self, user_id: str) -> int:
        """Return the number of places that the user has."""
        return self._taken.get(user_id, 0)

    def has_room(self, user_id: str, limit: int) -> bool:
        """True if one of `limit` places is free, and the user has not taken more than a fair share."""
        free = limit - self.total
        return free > 0 and (self._one_user or self.taken(user_id) < SHARE * free)

    def take(self, user_id: str) -> None:
        self.total += 1
        self._taken[user_id] = self.taken(user_id) + 1

    def release(self, user_id: str) -> None:
        self.total -= 1
        self._taken[user_id] -= 1
        if not self._taken[user_id]:
            del self._taken[user_id]


class TurnAdmission:
    """Lets turns run, and refuses with SERVICE_UNAVAILABLE those that cannot."""

    def __init__(self, config: AgentEngineConfig, *, one_user: bool = False) -> None:
        """`config` has the deadline of a turn. With `one_user` that user may take every place."""
        self._start_seconds = LATEST_START * config.timeout_seconds
        self.max_running = max(1, min(MAX_RUNNING_TURNS, int(RUNNING_TURNS_PER_SECOND * config.timeout_seconds)))
        self.open = Places(one_user=one_user)
        """The turns that run or wait."""
        self.running = Places(one_user=one_user)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """User -> the turns that wait, for each user who has no room among the running; some may be cancelled already.

        The user who was served last comes last.
        """
        self.refused = 0

    async def start(self, user_id: str, begin: Callable[[], Awaitable[StartedTurn]], *, waited: float = 0.0) -> StartedTurn:
        """Return the result of `begin`, which starts a turn; its place is released when the turn has ended.

        `waited` is the time in seconds since the request arrived. Raises `ServiceError` SERVICE_UNAVAILABLE if the turn is not
        admitted, or could not start in time.
        """
        if not self.open.has_room(user_id, MAX_OPEN_TURNS):
            raise self._refusal()
        self.open.take(user_id)
        try:
            await self._wait_for_place(user_id, self._start_seconds - waited)
        except BaseException:
            self.open.release(user_id)
            raise
        try:
            started = await begin()
        except BaseException:
            self._end(user_id)
            raise
        if isinstance(started, ChatAnswer):
            self._end(user_id)
        else:
            # The turn keeps its place until it ends, which may be after the client has disconnected.
            started.add_done_callback(lambda: self._end(user_id))
        return started

    async def _wait_for_place(self, user_id: str, seconds: float) -> None:
        if self.running.has_room(user_id, self.max_running):
            self.running.take(user_id)
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user_id, deque()).append(place)
        try:
            async with asyncio.timeout(seconds):
                await place
        except BaseException as exc:
            place.cancel()
            if not place.cancelled():
                # It got the place in the same moment.
                self._release_place(user_id)
            if isinstance(exc, TimeoutError):
                raise self._refusal() from None
            raise

    def _end(self, user_id: str) -> None:
        self.open.release(user_id)
        self._release_place(user_id)

    def _release_place(self, user_id: str) -> None:
        self.running.release(user_id)
        while users := [user for user in self._waiting if self.running.has_room(user, self.max_running)]:
            chosen = min(users, key=self.running.taken)
            queue = self._waiting.pop(chosen)
            place = queue.popleft()
            if not place.done():
                self.running.take(chosen)
                place.set_result(None)
            if queue:
                self._waiting[chosen] = queue

    def _refusal(self) -> ServiceError:
        self.refused += 1
        return busy()

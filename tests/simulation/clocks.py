"""The clocks of the simulated hosts and of the database, which differ from the true time, and the source of ids."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from random import Random

EPOCH = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class SimulatedClock:
    """A host's clock: the time of the loop, and how far the host is ahead of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ahead_seconds: float) -> None:
        self._loop = loop
        self.ahead_seconds = ahead_seconds

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self._loop.time() + self.ahead_seconds)

    def monotonic(self) -> float:
        return self._loop.time()


class RandomUuids:
    """Ids from the seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def new(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

"""Clocks and sources of ids, for production and for tests."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The system clock in timezone-aware UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when `advance` is called."""

    def __init__(self, start: datetime = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)) -> None:
        self._now = start
        self._seconds = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._seconds

    def advance(self, **amount: float) -> None:
        """Advance by a `timedelta` of these keywords. A negative one sets back the wall clock, never the monotonic clock."""
        step = timedelta(**amount)
        self._now += step
        self._seconds += max(0.0, step.total_seconds())


class RandomIds:
    """Random UUIDs."""

    def new(self) -> str:
        return str(uuid.uuid4())


class SequentialIds:
    """UUIDs that count from 1, so that a repeated test gets the same ids."""

    def __init__(self) -> None:
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return str(uuid.UUID(int=self._count))

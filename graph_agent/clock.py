"""Clocks and sources of ids, for production and for tests."""

from __future__ import annotations

import secrets
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


def uuid7(at: datetime, random_bits: int) -> str:
    """Return a UUID of version 7 (RFC 9562): UUIDs sort by their time, in milliseconds. `random_bits` are 74 bits."""
    ms = int(at.timestamp() * 1000)
    high, low = random_bits >> 62, random_bits & ((1 << 62) - 1)
    return str(uuid.UUID(int=ms << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low))


class RandomIds:
    """Random UUIDs that sort by their time, so that indexes grow at one end and a table can be divided by time."""

    def new(self) -> str:
        return uuid7(datetime.now(UTC), secrets.randbits(74))


class SequentialIds:
    """UUIDs that count from 1, so that a repeated test gets the same ids."""

    def __init__(self) -> None:
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return str(uuid.UUID(int=self._count))

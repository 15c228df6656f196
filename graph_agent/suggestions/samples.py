"""Samples of what was seen, of bounded size, and the limits between the ordinary and the rest."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from zlib import crc32

SAMPLE: Final = 20_000
"""The values that are kept of each number. Of more, a hash selects them: the same record gives the same file."""
DISTINCT: Final = 200
"""The distinct values that are kept of each text; one with more is no enumeration."""
USERS: Final = 10_000
"""The users that are counted."""

OUTLIERS: Final = 0.05
"""The share of calls that may be no ordinary ones."""
RARE: Final = 0.025
"""The share of the calls with the rarest hosts that are no ordinary ones."""
QUIET: Final = 0.1
"""An hour with less than this share of the calls of a busy hour is no ordinary one."""
BUSY: Final = 6
"""The hours that are busy."""
GAP: Final = 1.3
"""Values above a gap of this ratio, in that share, are no ordinary ones."""
GROUP: Final = 0.02
"""Values above a gap are ordinary if they are this share of all, and close: another kind of case, and no excess."""
CLOSE: Final = 1.5
"""Close values differ at most by this ratio."""
STEP: Final = 3
"""A gap between whole numbers is at least this wide."""
COMMON: Final = 0.985
"""Without a gap this share is ordinary."""
MARGIN: Final = 1.15
"""The limit is this factor above the largest ordinary value, rounded up to two digits."""


@dataclass
class Numbers:
    """The values of a number, with how many there were."""

    count: int = 0
    whole: bool = True
    _kept: list[tuple[int, float]] = field(default_factory=list)

    def add(self, value: float, key: str) -> None:
        """Add a value; `key` names the place where it was seen."""
        self.count += 1
        self.whole &= isinstance(value, int) or math.isinf(value)
        # A heap of the smallest hashes: the largest one, negated, is its first.
        entry = -crc32(key.encode()), float(value)
        if len(self._kept) < SAMPLE:
            heapq.heappush(self._kept, entry)
        elif entry > self._kept[0]:
            heapq.heapreplace(self._kept, entry)

    @property
    def sorted(self) -> list[float]:
        return sorted(value for _, value in self._kept)


@dataclass
class Users:
    """The users of something, up to a number."""

    limit: int = USERS
    _seen: set[str] = field(default_factory=set)

    def add(self, user: str) -> None:
        if len(self._seen) < self.limit:
            self._seen.add(user)

    def __len__(self) -> int:
        return len(self._seen)


@dataclass
class Choices:
    """The distinct values of something, each with its calls and its users."""

    enough: int
    """The users of one value that are told apart."""
    calls: dict[str, int] = field(default_factory=dict)
    users: dict[str, Users] = field(default_factory=dict)
    count: int = 0
    """All values, also those that are not kept."""
    too_many: bool = False

    def add(self, value: str, user: str) -> None:
        self.count += 1
        if value not in self.calls:
            if len(self.calls) >= DISTINCT:
                self.too_many = True
                # Only those that were seen more than once may still become common.
                self._drop_rare()
            if len(self.calls) >= DISTINCT:
                return
            self.users[value] = Users(self.enough)
            self.calls[value] = 0
        self.calls[value] += 1
        self.users[value].add(user)

    def common(self) -> list[str]:
        """Return the values of enough users, the most frequent first."""
        found = [value for value, users in self.users.items() if len(users) >= self.enough]
        return sorted(found, key=lambda value: (-self.calls[value], value))

    def frequent(self) -> list[str]:
        """Return the most frequent of the common values, until the rest is rare."""
        found: list[str] = []
        for value in self.common():
            if self.share(found) >= 1 - RARE:
                break
            found.append(value)
        return found

    def share(self, values: Sequence[str]) -> float:
        """Return the share of the calls with one of these values."""
        return sum(self.calls[value] for value in values) / self.count if self.count else 0.0

    def _drop_rare(self) -> None:
        for value in [one for one, calls in self.calls.items() if calls == 1]:
            del self.calls[value], self.users[value]


def upper_limit(values: Sequence[float], *, whole: bool) -> tuple[float, float]:
    """Return the largest ordinary one of sorted values, and the share of them up to it.

    A gap in the last values, the lowest if there are several, ends the ordinary, unless a group of close values is above it;
    without one a share of them is ordinary.
    """
    first = max(0, math.ceil(len(values) * (1 - OUTLIERS)) - 1)
    gaps = [index for index in range(first, len(values) - 1) if _is_gap(values[index], values[index + 1], whole=whole)]
    for index, end in pairwise([*gaps, len(values) - 1]):
        is_group = end - index >= len(values) * GROUP and values[end] <= values[index + 1] * CLOSE
        if not is_group:
            return values[index], (index + 1) / len(values)
    gradual = values[-1] > values[first] * GAP
    index = math.ceil(len(values) * COMMON) - 1 if gradual else len(values) - 1
    return values[index], (index + 1) / len(values)


def _is_gap(low: float, high: float, *, whole: bool) -> bool:
    return high > low * GAP and high - low >= (STEP if whole else 0) and low >= 0


def with_margin(value: float, *, whole: bool) -> float:
    """Return a round number above `value` by the margin."""
    wanted = value * MARGIN
    if wanted <= 0:
        return 0
    unit = 10.0 ** (math.floor(math.log10(wanted)) - 1)
    limit = math.ceil(round(wanted / unit, 6)) * unit
    return max(math.ceil(limit), math.floor(value) + 1) if whole else round(limit, 4)


def hours_of(counts: Sequence[int]) -> tuple[int, int] | None:
    """Return the shortest span that has all ordinary hours, its first and its end; None if there is none.

    The end is before the first if the span has midnight in it.
    """
    quiet = QUIET * sum(sorted(counts)[-BUSY:]) / BUSY
    ordinary = [hour for hour, count in enumerate(counts) if count > quiet]
    if not ordinary:
        return None
    length, first = min((max((hour - one) % 24 for hour in ordinary) + 1, one) for one in ordinary)
    within = sum(counts[(first + at) % 24] for at in range(length))
    return (first, (first + length) % 24) if length < 24 and within >= sum(counts) * (1 - OUTLIERS) else None

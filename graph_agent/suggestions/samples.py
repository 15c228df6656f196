"""Samples of what was seen, of bounded size, and the limits between the ordinary and the rest."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple
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
ALONE: Final = 0.2
"""The share of the calls that may be those of few users: what only they do is not learned, and the rule leaves it out."""
COMMON: Final = 0.985
"""Without a gap this share is ordinary."""
MARGIN: Final = 1.15
"""The limit is this factor above the largest ordinary value, rounded up to two digits."""


class Value(NamedTuple):
    """A number with the user of its call."""

    number: float
    user: str


@dataclass
class Numbers:
    """The values of a number, with how many there were."""

    alone: float = ALONE
    """The share that may be left out because it is that of few users."""
    count: int = 0
    whole: bool = True
    _kept: list[tuple[int, float, str]] = field(default_factory=list)

    def add(self, value: float, key: str, user: str) -> None:
        """Add a value; `key` names the place where it was seen."""
        self.count += 1
        self.whole &= isinstance(value, int) or math.isinf(value)
        # A heap of the smallest hashes: the largest one, negated, is its first.
        entry = -crc32(key.encode()), float(value), user
        if len(self._kept) < SAMPLE:
            heapq.heappush(self._kept, entry)
        elif entry > self._kept[0]:
            heapq.heapreplace(self._kept, entry)

    @property
    def sorted(self) -> list[Value]:
        return sorted(Value(value, user) for _, value, user in self._kept)


@dataclass
class Users:
    """The users of something, up to a number."""

    limit: int = USERS
    _seen: set[str] = field(default_factory=set)

    def add(self, user: str) -> None:
        if len(self._seen) < self.limit:
            self._seen.add(user)

    def update(self, others: Users) -> None:
        for user in others:
            self.add(user)

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)


@dataclass
class Choices:
    """The distinct values of something, each with its calls and its users."""

    enough: int
    """The users of one value that are counted one by one."""
    calls: dict[str, int] = field(default_factory=dict)
    users: dict[str, Users] = field(default_factory=dict)
    count: int = 0
    """All values, also those that are not kept."""
    too_many: bool = False
    _dropped: Users = field(default_factory=Users)
    """The users of values that are not kept."""

    def add(self, value: str, user: str) -> None:
        self.count += 1
        if value not in self.calls:
            if len(self.calls) >= DISTINCT:
                self.too_many = True
                # Only those that were seen more than once may still become common.
                self._drop_rare()
            if len(self.calls) >= DISTINCT:
                self._dropped.add(user)
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

    def others(self, values: Collection[str]) -> tuple[int, Users]:
        """Return the calls with other values, and their users: of a value that many have, as many as are counted one by one."""
        found = Users()
        found.update(self._dropped)
        for value, users in self.users.items():
            if value not in values:
                found.update(users)
        return self.count - sum(self.calls[value] for value in values), found

    def is_usual(self, values: Collection[str]) -> bool:
        """True if nearly all calls have one of these values, or all but those of few users, which are not too many."""
        calls, users = self.others(values)
        return calls <= self.count * OUTLIERS or (calls <= self.count * ALONE and len(users) < self.enough)

    def _drop_rare(self) -> None:
        for value in [one for one, calls in self.calls.items() if calls == 1]:
            self._dropped.update(self.users[value])
            del self.calls[value], self.users[value]


def largest_ordinary(values: Sequence[Value], numbers: Numbers, enough: int) -> int | None:
    """Return the index of the largest ordinary one of sorted values; None if too many are those of few users.

    Values of fewer than `enough` users above a gap are not learned, and no value that so few have come close to. A gap in the
    last of the others, the lowest if there are several, ends the ordinary, unless a group of close values of enough users is
    above it; without one a share of them is ordinary.
    """
    lowest = max(0, math.ceil(len(values) * (1 - numbers.alone)) - 1)
    values = values[: _last_of_many(values, lowest, enough, whole=numbers.whole) + 1]
    index = _ordinary_end(values, enough, whole=numbers.whole)
    while index >= lowest and not _is_close_to_many(values, index, enough):
        index -= 1
    return index if index >= lowest else None


def _last_of_many(values: Sequence[Value], lowest: int, enough: int, *, whole: bool) -> int:
    """Return the index below the lowest gap above which are fewer than `enough` users; the last one if there is none."""
    users: set[str] = set()
    last = len(values) - 1
    for index in range(len(values) - 2, lowest - 1, -1):
        users.add(values[index + 1].user)
        if len(users) >= enough:
            break
        if _is_gap(values[index].number, values[index + 1].number, whole=whole):
            last = index
    return last


def _ordinary_end(values: Sequence[Value], enough: int, *, whole: bool) -> int:
    first = max(0, math.ceil(len(values) * (1 - OUTLIERS)) - 1)
    gaps = [
        index for index in range(first, len(values) - 1) if _is_gap(values[index].number, values[index + 1].number, whole=whole)
    ]
    for index, end in pairwise([*gaps, len(values) - 1]):
        above = values[index + 1 : end + 1]
        is_close = above[-1].number <= above[0].number * CLOSE
        is_group = len(above) >= len(values) * GROUP and is_close and len({one.user for one in above}) >= enough
        if not is_group:
            return index
    gradual = values[-1].number > values[first].number * GAP
    return math.ceil(len(values) * COMMON) - 1 if gradual else len(values) - 1


def _is_close_to_many(values: Sequence[Value], index: int, enough: int) -> bool:
    """True if enough users have come close to a value: one user alone cannot climb to it in small steps."""
    users: set[str] = set()
    for one in reversed(values[: index + 1]):
        if one.number * CLOSE < values[index].number:
            return False
        users.add(one.user)
        if len(users) >= enough:
            return True
    return False


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


def hours_of(counts: Sequence[int], users: Sequence[Users], enough: int) -> tuple[int, int] | None:
    """Return the shortest span that has all ordinary hours, its first and its end; None if there is none.

    The end is before the first if the span has midnight in it. An hour is ordinary if enough users have called in it or in the
    hours beside it.
    """
    quiet = QUIET * sum(sorted(counts)[-BUSY:]) / BUSY
    around = [{one for near in (hour - 1, hour, hour + 1) for one in users[near % 24]} for hour in range(24)]
    ordinary = [hour for hour, count in enumerate(counts) if count > quiet and len(around[hour]) >= enough]
    if not ordinary:
        return None
    length, first = min((max((hour - one) % 24 for hour in ordinary) + 1, one) for one in ordinary)
    within = sum(counts[(first + at) % 24] for at in range(length))
    return (first, (first + length) % 24) if length < 24 and within >= sum(counts) * (1 - OUTLIERS) else None

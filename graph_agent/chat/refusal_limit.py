"""A limit on the log rows of refused messages, so that a client cannot fill the disk with them."""

from __future__ import annotations

from collections import Counter

from graph_agent.ports import Clock

LOGGED_PER_MINUTE = 10
"""The refusals of one user that one server logs in a minute; the others are only counted."""


class RefusalLimit:
    """Counts the refusals of every user in the current minute."""

    def __init__(self, clock: Clock, processes: int = 1) -> None:
        """Each of the `processes` of a server logs an equal part, at least one."""
        self._clock = clock
        self._logged_per_minute = max(1, LOGGED_PER_MINUTE // processes)
        self._minute = 0
        self._counts: Counter[str] = Counter()

    def has_room(self, user_id: str) -> bool:
        """Count a refusal; return True if it may be logged."""
        minute = int(self._clock.monotonic() // 60)
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        self._counts[user_id] += 1
        return self._counts[user_id] <= self._logged_per_minute

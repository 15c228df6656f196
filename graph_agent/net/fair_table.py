"""A table with limits for each user and in total, in which no user can take the places of the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class FairTable(Generic[V]):
    """Values of users by key, at most so many of each user and in total.

    A new value removes the least recently used one: of its own user, or in a full table of the user who has most. A value that
    is in use is removed only if that user has no other.
    """

    def __init__(self, per_user: int, total: int, in_use: Callable[[V], bool]) -> None:
        self._per_user = per_user
        self._total = total
        self._in_use = in_use
        self._of_users: dict[str, OrderedDict[str, V]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[V]:
        return iter([value for values in self._of_users.values() for value in values.values()])

    def use(self, user_id: str, key: str) -> V | None:
        """Return a value, which is then the most recently used one; None if there is none."""
        values = self._of_users.get(user_id)
        if values is None or key not in values:
            return None
        values.move_to_end(key)
        return values[key]

    def add(self, user_id: str, key: str, value: V) -> list[V]:
        """Add a value under a new key; return those that were removed for it."""
        values = self._of_users.setdefault(user_id, OrderedDict())
        values[key] = value
        self._count += 1
        removed = []
        if len(values) > self._per_user:
            removed.append(self._remove_oldest(user_id, key))
        if self._count > self._total:
            removed.append(self._remove_oldest(max(self._of_users, key=lambda one: len(self._of_users[one])), key))
        return removed

    def remove(self, user_id: str, key: str) -> None:
        """Remove a value, if it is there."""
        if self.use(user_id, key) is not None:
            self._take(user_id, key)

    def _remove_oldest(self, user_id: str, added: str) -> V:
        keys = [key for key in self._of_users[user_id] if key != added]
        return self._take(user_id, next((key for key in keys if not self._in_use(self._of_users[user_id][key])), keys[0]))

    def _take(self, user_id: str, key: str) -> V:
        value = self._of_users[user_id].pop(key)
        self._count -= 1
        if not self._of_users[user_id]:
            del self._of_users[user_id]
        return value

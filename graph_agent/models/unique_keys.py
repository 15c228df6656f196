"""JSON objects without a key that is written twice: one reader would take the first value, and another one the last."""

from __future__ import annotations

from typing import Any


class RepeatedKeyError(ValueError):
    """A key is written twice in one object."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__("a key is written twice in one object")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of `pairs`, as an `object_pairs_hook`. Raises `RepeatedKeyError`."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RepeatedKeyError(name)
        found[name] = value
    return found

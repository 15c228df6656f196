"""The bound for the nesting of JSON that others have sent: what walks deeper data would use up the stack."""

from __future__ import annotations

from typing import Any


def is_deeper_than(data: Any, levels: int) -> bool:
    """Return True if data has more than this many lists and objects inside one another."""
    level = [data]
    for _ in range(levels):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [part for parts in inner for part in parts]
    return any(isinstance(one, dict | list) for one in level)

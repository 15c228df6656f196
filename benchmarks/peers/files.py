"""The bytes that a database in a folder holds, counted by its tables and indexes and not by the pages of its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def growth(folder: str) -> Iterator[Callable[[], int]]:
    """Yield a function that returns, after the block, the bytes that it added."""
    before = _bytes(folder)
    yield lambda: _bytes(folder) - before


def _bytes(folder: str) -> int:
    """Return the bytes in use of all databases in `folder`: pages without their free space."""
    total = 0
    for path in Path(folder).glob("*.db"):
        with closing(sqlite3.connect(path)) as connection:
            (used,) = connection.execute("SELECT coalesce(sum(pgsize - unused), 0) FROM dbstat").fetchone()
            total += used
    return total

"""Reading of large tables in pages, each in its own short transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Select
from sqlalchemy.sql.elements import ColumnElement

Read = Callable[[Callable[[Connection], Any]], Awaitable[Any]]
"""Runs work on a reading connection, like `Database.read`."""


async def read_pages(read: Read, query: Select[Any], key: ColumnElement[Any], size: int = 1000) -> AsyncIterator[Sequence[Any]]:
    """Yield the rows of `query` in pages, ordered by `key`, a unique column that `query` selects first."""
    wanted = query.order_by(key).limit(size)
    page = await read(lambda connection: connection.execute(wanted).all())
    while page:
        yield page
        if len(page) < size:
            return
        following = wanted.where(key > page[-1][0])
        page = await read(lambda connection: connection.execute(following).all())  # noqa: B023 (awaited in this pass)

"""A database that counts the instructions that SQLite executes, so that a test sees how work grows without a clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sqlalchemy import Connection

from graph_agent.db import Database
from graph_agent.db.backend import Work
from graph_agent.db.sqlite_engine import driver_connection

T = TypeVar("T")

_INSTRUCTIONS = 100
"""Between two calls of the progress handler."""


class CountingDatabase(Database):
    """A SQLite database with the number of instructions of its virtual machine, in hundreds."""

    steps = 0

    async def read(self, work: Work[T]) -> T:
        return await super().read(self._counted(work))

    async def write(self, work: Work[T]) -> T:
        return await super().write(self._counted(work))

    async def steps_of(self, work: Callable[[], Awaitable[Any]]) -> int:
        """Return how many instructions, in hundreds, `work` takes."""
        before = self.steps
        await work()
        return self.steps - before

    def _counted(self, work: Work[T]) -> Work[T]:
        def count() -> int:
            self.steps += 1
            return 0

        def counted(connection: Connection) -> T:
            driver = driver_connection(connection)
            driver.set_progress_handler(count, _INSTRUCTIONS)
            try:
                return work(connection)
            finally:
                driver.set_progress_handler(None, 0)

        return counted

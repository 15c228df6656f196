"""The work of a verification, a sealing and a pruning grows with the log, also with rows that wait or that were added by hand.

It is counted in instructions of SQLite, never timed. The plans of PostgreSQL use the same indexes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, delete, func, insert, select

from graph_agent.audit.retention import prune
from graph_agent.db import Database
from graph_agent.db.backend import Work
from graph_agent.db.sqlite_engine import driver_connection
from graph_agent.record.statements import read
from graph_agent.record.tables import decision_logs
from graph_agent.record.tamper.tree_check import read_all
from graph_agent.record.tree.tables import LeafKind, record_leaves, record_pending, tree_leaves
from tests.record.generated_log import ENDS, fill
from tests.record.trees import tree_of, verified

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


FEW, TIMES = 300, 8
AT_MOST = 1.3 * TIMES
"""The greatest ratio that counts as growing with the log: quadratic work has one of 64."""
Logs = Callable[[int], Awaitable[CountingDatabase]]
Prepare = Callable[[Database], Awaitable[Any]]


@pytest.fixture
async def logs(tmp_path: Path) -> AsyncIterator[Logs]:
    opened: list[CountingDatabase] = []

    async def log_of(count: int) -> CountingDatabase:
        database = CountingDatabase.open(f"sqlite:///{tmp_path / str(len(opened))}.db")
        database.write_now(tree_leaves.metadata.create_all)
        await asyncio.to_thread(fill, database, count)
        opened.append(database)
        return database

    yield log_of
    for database in opened:
        await database.close()


async def growth(logs: Logs, prepare: Prepare, work: Prepare) -> float:
    """Return how many times as many instructions `work` takes with `TIMES` times as many decisions."""
    found = []
    for count in (FEW, FEW * TIMES):
        database = await logs(count)
        await prepare(database)
        found.append(await database.steps_of(partial(work, database)))
    return found[1] / found[0]


async def nothing(_: Database) -> None:
    """Every row waits for the tree."""


async def sealed(database: Database) -> None:
    await tree_of(database, None).seal()


async def without_pending(database: Database) -> None:
    """Every row was added by hand, as it seems."""
    await database.write(lambda connection: connection.execute(delete(record_pending)) and None)


async def without_decisions(database: Database) -> None:
    def remove(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        connection.exec_driver_sql("DELETE FROM tool_invocation_logs")
        connection.execute(delete(decision_logs))

    await sealed(database)
    await database.write(remove)


async def with_leaves_twice(database: Database) -> None:
    def double(connection: Connection) -> None:
        columns = [record_pending.c[name] for name in ("kind", "item", "commitment", "mac")]
        connection.execute(insert(record_pending).from_select([column.name for column in columns], select(*columns)))

    await database.write(double)


@pytest.mark.parametrize("prepare", [nothing, sealed, without_pending, without_decisions, with_leaves_twice])
async def test_a_verification_grows_with_the_log_whatever_waits_or_is_missing(logs: Logs, prepare: Prepare) -> None:
    async def verify(database: Database) -> None:
        # The rows of a generated decision are not those of its record.
        assert (await verified(database, key=None)).count >= FEW

    assert await growth(logs, prepare, verify) < AT_MOST


async def test_a_sealing_grows_with_the_rows_that_wait_also_among_rows_that_were_added_by_hand(logs: Logs) -> None:
    async def forge(database: Database) -> None:
        """Put as many forged rows before the first row, and between the others."""

        def forge_waiting(connection: Connection) -> None:
            last = connection.scalar(select(func.max(record_pending.c.number)))
            connection.exec_driver_sql(f"UPDATE record_pending SET number = 1000000 + 2 * number WHERE number <= {last}")
            row = {"kind": LeafKind.DECISION, "commitment": bytes(32), "mac": "0" * 64}
            numbers = [*range(1, last + 1), *range(1000003, 1000003 + 2 * last, 2)]
            connection.execute(insert(record_pending), [{**row, "number": n, "item": f"forged {n}"} for n in numbers])

        await database.write(forge_waiting)

    async def seal(database: Database) -> None:
        size = await tree_of(database, None).seal()
        leaves = await database.read(lambda connection: connection.execute(select(record_leaves.c.n)).all())
        assert size == len(leaves) >= FEW

    assert await growth(logs, forge, seal) < AT_MOST


async def test_a_pruning_grows_with_the_log_also_if_its_oldest_decisions_must_stay(logs: Logs) -> None:
    async def unseal_half(database: Database) -> None:
        """The older half of the decisions waits for the tree again, so it is kept."""
        await sealed(database)

        def delete_first_half(connection: Connection) -> None:
            middle = connection.scalar(select(func.max(record_leaves.c.n) / 2))
            connection.execute(delete(record_leaves).where(record_leaves.c.n < middle))

        await database.write(delete_first_half)

    async def prune_all(database: Database) -> None:
        report = await prune(database, ENDS + timedelta(days=1), now=ENDS)
        assert report.decisions % (FEW // 2) == 0

    assert await growth(logs, unseal_half, prune_all) < AT_MOST


async def test_a_verification_has_no_time_limit_of_the_queries(log: Database) -> None:
    """The limit of a read ends with it, and a read without one has none."""
    limits = "SHOW statement_timeout" if log.dialect == "postgresql" else "SELECT '0'"
    await read(log, lambda connection: connection.exec_driver_sql("SELECT 1").scalar(), seconds=1)
    assert await read_all(log, lambda connection: connection.exec_driver_sql(limits).scalar()) == "0"
    # More instructions than a read of no time may take.
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) SELECT count(*) FROM n"
    assert await read_all(log, lambda connection: connection.exec_driver_sql(count).scalar()) == 50000

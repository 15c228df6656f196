"""Readiness: a part that cannot take a write is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

import httpx
import pytest
from sqlalchemy import delete, insert, select

from graph_agent.api.write_check import WriteCheck
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.clock import ManualClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.record.tree.tables import tree_head
from tests.chat.environment import Environment
from tests.record.trees import verified

Served = Callable[[Runtime], httpx.AsyncClient]


class FullDatabase(Database):
    """A database that can only be read."""

    async def write(self, *_: object, **__: object) -> NoReturn:
        raise DatabaseUnavailableError("full")


async def test_a_database_that_can_only_be_read_is_not_ready(environment: Environment, served: Served) -> None:
    full = environment.open_database(FullDatabase)
    answer = await served(environment.runtime(database=full)).get("/readyz")
    await full.close()
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "Not ready: database.")


async def test_a_log_that_was_rolled_back_is_not_ready_until_it_is_put_right(environment: Environment, served: Served) -> None:
    runtime = environment.runtime()
    await runtime.chat.send("ann", "hello")
    await runtime.tree.seal()
    head = await runtime.database.read(lambda connection: connection.execute(select(tree_head)).one())
    await runtime.database.write(lambda connection: connection.execute(delete(tree_head)).close())
    answer = await served(runtime).get("/readyz")
    assert (answer.status_code, answer.json()["error"]["message"], runtime.tree.is_rolled_back) == (
        503,
        "Not ready: log.",
        True,
    )
    await runtime.database.write(lambda connection: connection.execute(insert(tree_head), dict(head._mapping)).close())
    assert ((await served(runtime).get("/readyz")).status_code, runtime.tree.is_rolled_back) == (200, False)


@pytest.mark.parametrize("skew", [-10, 0, 0.3])
async def test_the_skew_of_the_host_against_the_database_is_reported(
    environment: Environment, served: Served, skew: float
) -> None:
    environment.clock = clock = ManualClock()
    environment.database.clock = ManualClock()
    clock.advance(seconds=skew)
    answer = await served(environment.runtime()).get("/readyz")
    assert answer.json() == {"status": "ready", "clock_skew_seconds": skew}


async def test_the_write_is_made_once_a_second_until_it_fails() -> None:
    clock, writes, failures = ManualClock(), [0], [False]

    async def write() -> None:
        writes[0] += 1
        if failures[0]:
            raise DatabaseUnavailableError("full")

    check = WriteCheck(write, clock)
    await asyncio.gather(*(check.pass_or_raise() for _ in range(10)))
    assert writes == [1]
    clock.advance(seconds=1)
    failures[0] = True
    for _ in range(2):
        with pytest.raises(DatabaseUnavailableError):
            await check.pass_or_raise()
    assert writes == [3]


async def test_repeated_checks_leave_one_row(environment: Environment) -> None:
    runtime = environment.runtime()
    for _ in range(3):
        await runtime.chat.check_writable()

    async def count(database: Database, table: str) -> int:
        return await database.read(lambda c: int(c.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()))

    assert await count(environment.database, "turn_limits") == 1
    assert (await verified(environment.database, key=None)).violations == []

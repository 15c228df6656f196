"""A server without requests writes nothing: it neither seals nor signs again what is sealed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event, func, select

from graph_agent.api.app import SEAL_SECONDS, create_app
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.record.tree.tables import tree_leaves
from graph_agent.settings import read_settings

_WRITTEN_BY = "SELECT pg_current_xact_id_if_assigned()::text"
"""PostgreSQL gives an id to a transaction when it writes."""


@pytest.fixture
def count_writes(database_url: str) -> Iterator[Callable[[], int]]:
    """Return a number that grows with each transaction that has written."""
    file = database_url.removeprefix("sqlite:///")
    if file != database_url:
        with closing(sqlite3.connect(file)) as observer:
            yield lambda: int(observer.execute("PRAGMA data_version").fetchone()[0])
        return
    found: list[str] = []

    def note(connection: Connection) -> None:
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(_WRITTEN_BY)
            found.extend(number for (number,) in cursor.fetchall() if number is not None)

    event.listen(Engine, "commit", note)
    try:
        yield lambda: len(found)
    finally:
        event.remove(Engine, "commit", note)


async def test_a_server_without_requests_writes_nothing(
    database_url: str, tmp_path: Path, count_writes: Callable[[], int]
) -> None:
    settings = read_settings({"GRAPH_AGENT_HOME": str(tmp_path), "DATABASE_URL": database_url})
    leaves = select(func.count()).select_from(tree_leaves)
    async with open_runtime(settings, model="embedded") as runtime:
        app = create_app(runtime)
        async with app.router.lifespan_context(app):
            before = count_writes()
            await runtime.chat.send("ann", "add a task to call mom")
            while not await runtime.database.read(lambda connection: connection.scalar(leaves)):  # noqa: ASYNC110 (a task of the server seals)
                await asyncio.sleep(0)
            assert count_writes() > before
            # The start of the server, with its first sweep, has ended when nothing is written any more.
            after = -1
            while after != (after := count_writes()):  # noqa: ASYNC110 (no event says that a server is idle)
                await asyncio.sleep(SEAL_SECONDS)
            await asyncio.sleep(3 * SEAL_SECONDS)
            assert count_writes() == after

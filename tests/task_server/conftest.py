"""Fixtures of the task server's tests."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.db import Database
from graph_agent.ledger.protocol import OperationMeta, ResultEnvelope
from graph_agent.task_server.store import metadata
from graph_agent.task_server.tools import TaskTools


class ToolsOnDatabase:
    """The task tools on one database, with a manual clock and sequential ids."""

    def __init__(self, database: Database, ids: SequentialIds | None = None) -> None:
        self.database = database
        self.clock = ManualClock()
        self.tools = TaskTools(database, self.clock, ids or SequentialIds())

    async def call(
        self, tool: str, user: str = "ann", key: str | None = None, mode: str = "run", **arguments: Any
    ) -> ResultEnvelope:
        operation = None if key is None else OperationMeta.model_validate({"key": key, "mode": mode})
        return await self.tools.call(tool, arguments, user, operation)

    async def add(self, description: str, user: str = "ann") -> str:
        """Add a task and return its id."""
        outcome = await self.call("add_task", user, description=description)
        assert outcome.data is not None
        identity: str = outcome.data["task"]["id"]
        return identity

    async def descriptions(self, user: str = "ann") -> list[str]:
        outcome = await self.call("list_tasks", user)
        assert outcome.data is not None
        return [task["description"] for task in outcome.data["tasks"]]

    async def ledger(self) -> list[tuple[str, str]]:
        """Return key and state of every operation, sorted by key."""
        rows = await self.database.read(
            lambda connection: connection.exec_driver_sql("SELECT key, state FROM operations ORDER BY key").all()
        )
        return [(row[0], row[1]) for row in rows]


@pytest.fixture
def environment(database: Database) -> ToolsOnDatabase:
    """An environment with an empty database, once for each kind of database."""
    # Faster than a migration; test_migrations.py checks that both create the same tables.
    database.write_now(metadata.create_all)
    return ToolsOnDatabase(database)

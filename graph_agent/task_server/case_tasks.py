"""The tasks of a validation case: created before its first turn, and listed after its last one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError
from graph_agent.task_server.tools import Call, TaskTools


class CaseTasks:
    """Creates and lists tasks in the database of the case, beside the agent. A task is its description and its status."""

    def __init__(self, database: Database | None) -> None:
        """Without a database, as with other MCP servers, a case cannot start with tasks, and none are listed."""
        self._tools = None if database is None else TaskTools(database, SystemClock(), RandomIds())

    async def create(self, user_id: str, tasks: Iterable[tuple[str, str]]) -> list[str]:
        """Create `tasks` in their order and return their ids. Raises `ConfigurationError`."""
        ids = []
        for description, status in tasks:
            added = await self._call("add_task", {"description": description}, user_id)
            ids.append(str(added["task"]["id"]))
            if status == "completed":
                await self._call("complete_task", {"task_id": ids[-1]}, user_id)
        return ids

    async def listed(self, user_id: str) -> list[tuple[str, str]]:
        """Return the tasks, newest first. Raises `ConfigurationError`."""
        if self._tools is None:
            return []
        listed = await self._call("list_tasks", {}, user_id)
        return [(task["description"], task["status"]) for task in listed["tasks"]]

    async def _call(self, tool_name: str, arguments: dict[str, Any], user_id: str) -> dict[str, Any]:
        if self._tools is None:
            raise ConfigurationError("a case starts with tasks: only the shipped task server can create them")
        result = await self._tools.call(Call(tool_name, arguments, user_id))
        if not result.success or not isinstance(result.data, dict):
            raise ConfigurationError(f"the environment of a case cannot be created: {tool_name} failed")
        return result.data

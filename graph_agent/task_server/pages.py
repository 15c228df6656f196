"""The pages of a user's tasks, for the task list of the API: the tool `list_tasks` returns all of them at once."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from graph_agent.db import Database
from graph_agent.task_server import store
from graph_agent.task_server.models import Task, TaskStatus


class TaskPages:
    """The tasks in `database`, a limited number at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, user_id: str, limit: int, status: str, before: str | None) -> list[dict[str, Any]]:
        """Return at most `limit` of the user's tasks, newest first; those after the task `before`, if it is given.

        `status` is that of the tasks, or "all". Raises LookupError if the user has no task `before`, and
        `DatabaseUnavailableError`.
        """
        wanted = None if status == "all" else TaskStatus(status)

        def page(connection: Connection) -> list[Task]:
            after = None
            if before is not None:
                last = store.get(connection, user_id, before)
                if last is None:
                    raise LookupError(before)
                after = (last.created_at, last.id)
            return store.page_newest_first(connection, user_id, limit, after, wanted)

        return [task.to_json() for task in await self._database.read(page)]

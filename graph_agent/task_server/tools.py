"""The behavior of the five tools, independent of MCP, and the tasks of a validation case."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.ledger.operations import Operation, OperationLedger
from graph_agent.ledger.protocol import OperationMeta, ResultEnvelope
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.ports import Clock, IdSource
from graph_agent.task_server import store
from graph_agent.task_server.models import AddTask, ListTasks, Task, TaskReference, TaskStatus, UpdateTask, error_sentence
from graph_agent.task_server.store import operations

logger = logging.getLogger(__name__)

NOT_FOUND = ResultEnvelope.failed(ToolErrorCode.NOT_FOUND, "There is no such task.")
NOT_DONE = ResultEnvelope.failed(ToolErrorCode.DATABASE_ERROR, "The tasks are not available right now; nothing was changed.")
OUTCOME_UNKNOWN = ResultEnvelope.failed(
    ToolErrorCode.UNKNOWN_ERROR, "The tasks are not available right now; it is not known what was done."
)

Change = Callable[[Connection, Operation, Any], ResultEnvelope]
"""The effect of an operation with its arguments, in the transaction of the connection."""

_TIME: TypeAdapter[datetime] = TypeAdapter(UtcDatetime)

PAGE_SIZE = 100
"""The number of tasks in a page of `resources/list`."""

_ARGUMENTS: dict[str, type[Frozen]] = {
    "add_task": AddTask,
    "list_tasks": ListTasks,
    "update_task": UpdateTask,
    "complete_task": TaskReference,
    "delete_task": TaskReference,
}


class TaskTools:
    """The tools on one database. Every call returns a `ResultEnvelope`, also for invalid arguments and database failures."""

    def __init__(self, database: Database, clock: Clock, ids: IdSource) -> None:
        self._database = database
        self._ledger = OperationLedger(database, operations)
        self._clock = clock
        self._ids = ids
        self._changes: dict[str, Change] = {
            "add_task": self._add,
            "update_task": _update,
            "complete_task": _complete,
            "delete_task": _delete,
        }

    async def call(
        self, tool_name: str, arguments: dict[str, Any], user_id: str, request: OperationMeta | None = None
    ) -> ResultEnvelope:
        """Run one tool for a user, a change under the operation of `request`. Raises KeyError for an unknown tool."""
        try:
            given = _ARGUMENTS[tool_name].model_validate(arguments)
        except ValidationError as error:
            return ResultEnvelope.failed(ToolErrorCode.VALIDATION_ERROR, error_sentence(error))
        try:
            if isinstance(given, ListTasks):
                return await self._list(user_id, given)
            change = self._changes[tool_name]
            operation = Operation.requested(request, user_id, tool_name, given.to_json(), self._clock.now())
            return await self._ledger.answer(request, operation, lambda connection: change(connection, operation, given))
        except DatabaseUnavailableError as error:
            logger.warning("the database is not available", exc_info=error)
            return OUTCOME_UNKNOWN if error.unknown else NOT_DONE
        except SQLAlchemyError as error:
            logger.error("the database refused a statement", exc_info=error)
            return NOT_DONE

    async def page(self, user_id: str, cursor: str | None) -> tuple[list[Task], str | None]:
        """Return at most `PAGE_SIZE` of the user's tasks, newest first, and the cursor of the next page, if there is one.

        Raises ValueError for text that is no cursor, and `DatabaseUnavailableError`.
        """
        after = None if cursor is None else _position(cursor)
        found = await self._database.read(lambda connection: store.page_newest_first(connection, user_id, PAGE_SIZE + 1, after))
        page = found[:PAGE_SIZE]
        return page, _cursor(page[-1]) if len(found) > PAGE_SIZE else None

    async def preview(self, user_id: str, task_id: str) -> Task | None:
        """Return the user's task with `task_id` for a preview. Raises `DatabaseUnavailableError`."""
        try:
            wanted = TaskReference(task_id=task_id).task_id
        except ValidationError:
            return None
        return await self._database.read(lambda connection: store.get(connection, user_id, wanted))

    async def _list(self, user_id: str, arguments: ListTasks) -> ResultEnvelope:
        found = await self._database.read(lambda connection: store.list_newest_first(connection, user_id, arguments.status))
        return ResultEnvelope.done(tasks=[task.to_json() for task in found], count=len(found))

    def _add(self, connection: Connection, operation: Operation, arguments: AddTask) -> ResultEnvelope:
        task = Task(
            id=self._ids.new(), user_id=operation.user_id, description=arguments.description, created_at=operation.created_at
        )
        store.add(connection, task)
        return ResultEnvelope.done(task=task.to_json(), preview=task.description)


def _update(connection: Connection, operation: Operation, arguments: UpdateTask) -> ResultEnvelope:
    before = store.get(connection, operation.user_id, arguments.task_id, lock=True)
    if before is None:
        return NOT_FOUND
    after = store.set_description(connection, before, arguments.description)
    return ResultEnvelope.done(task=after.to_json(), preview=before.description)


def _complete(connection: Connection, operation: Operation, arguments: TaskReference) -> ResultEnvelope:
    task = store.get(connection, operation.user_id, arguments.task_id, lock=True)
    if task is None:
        return NOT_FOUND
    if task.status is TaskStatus.COMPLETED:
        return ResultEnvelope.done(task=task.to_json(), preview=task.description, receipt="it was completed already")
    task = store.complete(connection, task, operation.created_at)
    return ResultEnvelope.done(task=task.to_json(), preview=task.description)


def _delete(connection: Connection, operation: Operation, arguments: TaskReference) -> ResultEnvelope:
    task = store.get(connection, operation.user_id, arguments.task_id, lock=True)
    if task is None:
        return ResultEnvelope.done(task=None, receipt="nothing was there to delete")
    store.remove(connection, task)
    return ResultEnvelope.done(task=task.to_json(), preview=task.description)


def _cursor(task: Task) -> str:
    """Return the position of a task in the order of pages. It names the task by time and id, so that it may be deleted."""
    return f"{task.created_at.isoformat()}/{task.id}"


def _position(cursor: str) -> tuple[datetime, str]:
    created_at, _, task_id = cursor.partition("/")
    return _TIME.validate_python(datetime.fromisoformat(created_at)), TaskReference(task_id=task_id).task_id


class CaseTasks:
    """Creates and lists tasks in the database of the case, beside the agent. A task is its description and its status."""

    def __init__(self, database: Database) -> None:
        self._tools = TaskTools(database, SystemClock(), RandomIds())

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
        listed = await self._call("list_tasks", {}, user_id)
        return [(task["description"], task["status"]) for task in listed["tasks"]]

    async def _call(self, tool_name: str, arguments: dict[str, Any], user_id: str) -> dict[str, Any]:
        result = await self._tools.call(tool_name, arguments, user_id)
        if not result.success or not isinstance(result.data, dict):
            raise ConfigurationError(f"the environment of a case cannot be created: {tool_name} failed")
        return result.data

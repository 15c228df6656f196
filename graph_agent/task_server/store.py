"""The only code that touches the tasks table.

Every statement names the user: another user's task is as if it were not there. The methods take the connection of a transaction
that the caller owns, so that an effect and its ledger row are one.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, RowMapping, bindparam, delete, insert, select, update

from graph_agent.task_server.models import Task, TaskStatus
from graph_agent.task_server.tables import tasks

_COLUMNS = (
    tasks.c.id,
    tasks.c.user_id,
    tasks.c.description,
    tasks.c.status,
    tasks.c.created_at,
    tasks.c.completed_at,
)
_OWN_TASK = (tasks.c.id == bindparam("task"), tasks.c.user_id == bindparam("user"))

_INSERT = insert(tasks)
_NEWEST_FIRST = (
    select(*_COLUMNS).where(tasks.c.user_id == bindparam("user")).order_by(tasks.c.created_at.desc(), tasks.c.number.desc())
)
_NEWEST_FIRST_BY_STATUS = _NEWEST_FIRST.where(tasks.c.status == bindparam("status"))
_GET = select(*_COLUMNS).where(*_OWN_TASK)
_GET_TO_CHANGE = _GET.with_for_update()
_DESCRIBE = update(tasks).where(*_OWN_TASK).values(description=bindparam("new_description"))
_COMPLETE = update(tasks).where(*_OWN_TASK).values(status=TaskStatus.COMPLETED, completed_at=bindparam("at"))
_DELETE = delete(tasks).where(*_OWN_TASK)


def add(connection: Connection, task: Task) -> None:
    connection.execute(_INSERT, dict(task))


def newest_first(connection: Connection, user_id: str, status: TaskStatus | None = None) -> list[Task]:
    """The user's tasks, all of them or those with `status`."""
    if status is None:
        rows = connection.execute(_NEWEST_FIRST, {"user": user_id})
    else:
        rows = connection.execute(_NEWEST_FIRST_BY_STATUS, {"user": user_id, "status": status})
    return [_task(row) for row in rows.mappings()]


def get(connection: Connection, user_id: str, task_id: str) -> Task | None:
    return _first(connection.execute(_GET, {"user": user_id, "task": task_id}).mappings().first())


def get_to_change(connection: Connection, user_id: str, task_id: str) -> Task | None:
    """`get`, keeping everybody else from changing that task until the transaction ends."""
    return _first(connection.execute(_GET_TO_CHANGE, {"user": user_id, "task": task_id}).mappings().first())


def describe(connection: Connection, task: Task, description: str) -> Task:
    connection.execute(_DESCRIBE, {"user": task.user_id, "task": task.id, "new_description": description})
    return task.replace(description=description)


def complete(connection: Connection, task: Task, at: datetime) -> Task:
    connection.execute(_COMPLETE, {"user": task.user_id, "task": task.id, "at": at})
    return task.replace(status=TaskStatus.COMPLETED, completed_at=at)


def remove(connection: Connection, task: Task) -> None:
    connection.execute(_DELETE, {"user": task.user_id, "task": task.id})


def _first(row: RowMapping | None) -> Task | None:
    return None if row is None else _task(row)


def _task(row: RowMapping) -> Task:
    return Task.model_validate(dict(row))

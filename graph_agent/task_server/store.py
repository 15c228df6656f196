"""The tables of the task server, tasks and the ledger of operations on them, and all statements on tasks.

Every statement has the user id as a condition, so that another user's task is not found. The functions take the connection of
the caller's transaction, so that an effect and its ledger row are committed together.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, and_, bindparam, delete, insert, or_, select, update

from graph_agent.db import Database, PreparedStatement, UtcDateTime, UuidText, enum_by_value, new_metadata
from graph_agent.ledger.operations import operations_table
from graph_agent.task_server.models import MAX_DESCRIPTION_LENGTH, Task, TaskStatus

metadata = new_metadata()

tasks = sa.Table(
    "tasks",
    metadata,
    # Internal: it orders tasks with the same creation time. Clients use the UUID, which is never reused.
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("id", UuidText, nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("description", sa.String(MAX_DESCRIPTION_LENGTH), nullable=False),
    sa.Column("status", enum_by_value(TaskStatus, "status"), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("completed_at", UtcDateTime),
    sa.UniqueConstraint("id"),
    sa.CheckConstraint(f"length(description) BETWEEN 1 AND {MAX_DESCRIPTION_LENGTH}", name="description_length"),
    sa.CheckConstraint("(status = 'completed') = (completed_at IS NOT NULL)", name="completed_at_iff_completed"),
    sa.Index("ix_tasks_user_id_created_at", "user_id", "created_at"),
)

operations = operations_table(metadata)

_COLUMNS = [tasks.c[name] for name in Task.model_fields]
_OWN_TASK = (tasks.c.id == bindparam("task"), tasks.c.user_id == bindparam("user"))

_INSERT = PreparedStatement(insert(tasks))
_NEWEST_FIRST = (
    select(*_COLUMNS).where(tasks.c.user_id == bindparam("user")).order_by(tasks.c.created_at.desc(), tasks.c.number.desc())
)
_PAGE = (
    select(*_COLUMNS)
    .where(tasks.c.user_id == bindparam("user"))
    .order_by(tasks.c.created_at.desc(), tasks.c.id.desc())
    .limit(bindparam("count"))
)
_NEXT_PAGE = _PAGE.where(
    or_(tasks.c.created_at < bindparam("at"), and_(tasks.c.created_at == bindparam("at"), tasks.c.id < bindparam("task")))
)
_GET = select(*_COLUMNS).where(*_OWN_TASK)
_GET_FOR_UPDATE = _GET.with_for_update()
_SET_DESCRIPTION = update(tasks).where(*_OWN_TASK).values(description=bindparam("new_description"))
_COMPLETE = update(tasks).where(*_OWN_TASK).values(status=TaskStatus.COMPLETED, completed_at=bindparam("at"))
_DELETE = delete(tasks).where(*_OWN_TASK)


def add(connection: Connection, task: Task) -> None:
    _INSERT.run(connection, dict(task))


def list_newest_first(connection: Connection, user_id: str, status: str = "all") -> list[Task]:
    """Return the user's tasks with `status`, or "all", newest first."""
    return _list(connection, _NEWEST_FIRST, {"user": user_id}, status)


def page_newest_first(
    connection: Connection, user_id: str, count: int, after: tuple[datetime, str] | None, status: str = "all"
) -> list[Task]:
    """Return at most `count` of the user's tasks with `status`, or "all", newest first.

    `after` is the creation time and id of a task: only tasks that come after it in this order are returned.
    """
    page, values = _PAGE, {"user": user_id, "count": count}
    if after is not None:
        page, values = _NEXT_PAGE, {**values, "at": after[0], "task": after[1]}
    return _list(connection, page, values, status)


def _list(connection: Connection, query: Select[Any], values: dict[str, Any], status: str) -> list[Task]:
    wanted = query if status == "all" else query.where(tasks.c.status == TaskStatus(status))
    return [Task.model_validate(dict(row)) for row in connection.execute(wanted, values).mappings()]


def get(connection: Connection, user_id: str, task_id: str, *, lock: bool = False) -> Task | None:
    """Return the task. `lock` locks its row until the transaction ends (on PostgreSQL; SQLite has one writer)."""
    row = connection.execute(_GET_FOR_UPDATE if lock else _GET, {"user": user_id, "task": task_id}).mappings().first()
    return None if row is None else Task.model_validate(dict(row))


def set_description(connection: Connection, task: Task, description: str) -> Task:
    connection.execute(_SET_DESCRIPTION, {"user": task.user_id, "task": task.id, "new_description": description})
    return task.replace(description=description)


def complete(connection: Connection, task: Task, at: datetime) -> Task:
    connection.execute(_COMPLETE, {"user": task.user_id, "task": task.id, "at": at})
    return task.replace(status=TaskStatus.COMPLETED, completed_at=at)


def remove(connection: Connection, task: Task) -> None:
    connection.execute(_DELETE, {"user": task.user_id, "task": task.id})


class TaskPages:
    """The tasks in `database`, a limited number at a time: the tool `list_tasks` returns all of them at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, user_id: str, limit: int, status: str, before: str | None) -> list[dict[str, Any]]:
        """Return at most `limit` of the user's tasks, newest first; those after the task `before`, if it is given.

        `status` is that of the tasks, or "all". Raises LookupError if the user has no task `before`, and
        `DatabaseUnavailableError`.
        """

        def page(connection: Connection) -> list[Task]:
            after = None
            if before is not None:
                last = get(connection, user_id, before)
                if last is None:
                    raise LookupError(before)
                after = (last.created_at, last.id)
            return page_newest_first(connection, user_id, limit, after, status)

        return [task.to_json() for task in await self._database.read(page)]

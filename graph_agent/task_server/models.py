"""The task, and the data of the tools' results."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from graph_agent.models.base import Frozen, UtcDatetime

MAX_DESCRIPTION_LENGTH = 1000


class TaskStatus(StrEnum):
    """The status of a task; a completed task cannot become pending again."""

    PENDING = "pending"
    COMPLETED = "completed"


class Task(Frozen):
    """A task of one user; `completed_at` is set exactly when the status is completed."""

    id: str
    user_id: str = Field(min_length=1, max_length=255)
    description: str = Field(min_length=1, max_length=MAX_DESCRIPTION_LENGTH)
    status: TaskStatus = TaskStatus.PENDING
    created_at: UtcDatetime
    completed_at: UtcDatetime | None = None

    @model_validator(mode="after")
    def _completion_has_its_time(self) -> Task:
        if (self.status is TaskStatus.COMPLETED) != (self.completed_at is not None):
            raise ValueError("completed_at is set exactly when the status is completed")
        return self


class ChangedTask(Frozen):
    """The data of a change: the task as it is now, or null if there was none to delete."""

    task: Task | None
    receipt: str


class ListedTasks(Frozen):
    """The data of the list, newest first."""

    tasks: list[Task]
    count: int

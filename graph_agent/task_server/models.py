"""The task, the arguments of the tools and the data of their results.

An error in arguments is one fixed sentence that repeats no value of the client.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictStr, ValidationError, model_validator

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import unstorable

MAX_DESCRIPTION_LENGTH = 1000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


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
    preview: str | None = None
    """The description of the task before the change, or of the new one."""
    receipt: str | None = None
    """Anything that the call does not say."""


class ListedTasks(Frozen):
    """The data of the list, newest first."""

    tasks: list[Task]
    count: int


def _description(value: str) -> str:
    value = value.strip()
    if not 1 <= len(value) <= MAX_DESCRIPTION_LENGTH or unstorable(value):
        raise ValueError("not a description")
    return value


def _task_id(value: str) -> str:
    value = value.strip().lower()
    if not _UUID.fullmatch(value):
        raise ValueError("not a task id")
    return value


Description = Annotated[StrictStr, AfterValidator(_description)]
TaskId = Annotated[StrictStr, AfterValidator(_task_id)]


class AddTask(Frozen):
    description: Description


class ListTasks(Frozen):
    status: Literal["pending", "completed", "all"] = "all"


class UpdateTask(Frozen):
    task_id: TaskId
    description: Description


class TaskReference(Frozen):
    """The arguments of a tool that only needs to know the task."""

    task_id: TaskId


_SENTENCES = {
    "description": f"The description must be text of 1 to {MAX_DESCRIPTION_LENGTH} characters.",
    "task_id": "The task id is not valid.",
    "status": "The status must be pending, completed or all.",
}


def error_sentence(error: ValidationError) -> str:
    """Return the sentence for the first error."""
    first: dict[str, Any] = dict(error.errors(include_url=False, include_context=False, include_input=False)[0])
    if first["type"] == "extra_forbidden":
        return "There is an argument that this tool does not take."
    return _SENTENCES.get(str(first["loc"][0]) if first["loc"] else "", "The arguments are not valid.")

"""The task, and the result of a tool call."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from graph_agent.errors import ToolErrorCode
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


class ResultEnvelope(Frozen):
    """The result of a call, also of a failed one. `error` is a fixed sentence; the `data` of a change has a `receipt`."""

    success: bool
    data: dict[str, Any] | None = None
    error: str | None = None
    error_code: ToolErrorCode | None = None

    @classmethod
    def done(cls, **data: Any) -> ResultEnvelope:
        return cls(success=True, data=data)

    @classmethod
    def failed(cls, code: ToolErrorCode, error: str) -> ResultEnvelope:
        return cls(success=False, error=error, error_code=code)

    def to_text(self) -> str:
        """Return this result as JSON text for the ledger."""
        return json.dumps(self.to_json(), ensure_ascii=False)

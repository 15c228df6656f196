"""Validation of tasks and outcomes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from graph_agent.errors import ToolErrorCode
from graph_agent.ledger.protocol import ResultEnvelope
from graph_agent.task_server.models import Task, TaskStatus

AT = datetime(2026, 3, 1, tzinfo=UTC)
GOOD: dict[str, Any] = {"id": "1", "user_id": "u", "description": "call mom", "created_at": AT}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"description": "x"},
        {"description": "x" * 1000},
        {"status": "completed", "completed_at": AT},
        {"created_at": AT.astimezone(timezone(timedelta(hours=5)))},
    ],
)
def test_a_valid_task_is_accepted(values: dict[str, Any]) -> None:
    task = Task(**{**GOOD, **values})
    assert task.created_at == AT
    assert task.created_at.tzinfo is UTC


@pytest.mark.parametrize(
    "values",
    [
        {"description": ""},
        {"description": "x" * 1001},
        {"status": "completed"},
        {"completed_at": AT},
        {"status": "started"},
        {"created_at": datetime(2026, 3, 1)},  # noqa: DTZ001 - a naive time is the point
        {"user_id": ""},
        {"owner": "u"},
    ],
)
def test_an_invalid_task_is_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Task(**{**GOOD, **values})


def test_a_task_is_pending_until_it_is_completed() -> None:
    assert Task(**GOOD).status is TaskStatus.PENDING


def test_an_outcome_is_the_same_as_data_and_as_text() -> None:
    outcome = ResultEnvelope.failed(ToolErrorCode.NOT_FOUND, "There is no such täsk.")
    assert json.loads(outcome.to_text()) == outcome.to_json()
    assert outcome.to_json() == {
        "success": False,
        "data": None,
        "error": "There is no such täsk.",
        "error_code": "NOT_FOUND",
    }

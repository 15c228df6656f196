"""The five tools as every client sees them: names, words and schemas are the adapter contract's, to the letter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LEDGER_META = "graph_agent/ledger"
"""Declared by a tool that keeps the operation ledger: the same key never acts twice, and `settle` works."""
PREVIEW_META = "graph_agent/preview"
"""Declared by a tool whose target can be looked at first: the URI template of a resource, filled from the arguments."""
USER_META = "graph_agent/user"
"""In a request: who it is for."""
OPERATION_META = "graph_agent/operation"
"""In a request: `{"key": text, "mode": "run" | "settle"}`."""

PREVIEW_TEMPLATE = "task://{task_id}"


@dataclass(frozen=True, slots=True)
class Declaration:
    """One tool: what the model reads, and what a client should know of it."""

    name: str
    title: str
    description: str
    parameters: dict[str, Any]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    meta: dict[str, Any] = field(default_factory=lambda: {LEDGER_META: True})


_LOOKS_FIRST = {LEDGER_META: True, PREVIEW_META: PREVIEW_TEMPLATE}

DECLARATIONS = (
    Declaration(
        name="add_task",
        title="Add task",
        description="Create a new task. Use when user wants to add, create, or remember something.",
        parameters={
            "type": "object",
            "properties": {"description": {"type": "string", "description": "Task description"}},
            "required": ["description"],
        },
    ),
    Declaration(
        name="list_tasks",
        title="List tasks",
        description="Get user's tasks. Use when user wants to see, view, or list their tasks.",
        parameters={
            "type": "object",
            "properties": {
                "status": {
                    "type": "string",
                    "enum": ["pending", "completed", "all"],
                    "description": "Filter by status (default: all)",
                }
            },
        },
        read_only=True,
        idempotent=True,
        meta={},
    ),
    Declaration(
        name="update_task",
        title="Update task",
        description="Update a task's description. Use when user wants to change, edit, or rename a task.",
        parameters={
            "type": "object",
            "properties": {
                "task_id": {"type": "string", "description": "Task ID to update"},
                "description": {"type": "string", "description": "New description"},
            },
            "required": ["task_id", "description"],
        },
        destructive=True,
        idempotent=True,
        meta=_LOOKS_FIRST,
    ),
    Declaration(
        name="complete_task",
        title="Complete task",
        description="Mark a task as completed. Use when user says done, finished, or completed.",
        parameters={
            "type": "object",
            "properties": {"task_id": {"type": "string", "description": "Task ID to complete"}},
            "required": ["task_id"],
        },
        idempotent=True,
        meta=_LOOKS_FIRST,
    ),
    Declaration(
        name="delete_task",
        title="Delete task",
        description="Delete a task permanently. Use when user wants to remove or delete a task.",
        parameters={
            "type": "object",
            "properties": {"task_id": {"type": "string", "description": "Task ID to delete"}},
            "required": ["task_id"],
        },
        destructive=True,
        idempotent=True,
        meta=_LOOKS_FIRST,
    ),
)

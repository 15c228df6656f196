"""The declarations of the five tools of the task server, with the hints that its MCP listing adds.

Adapters import this module, so it loads neither the MCP SDK nor SQLAlchemy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graph_agent.models.llm import ToolDeclaration

PREVIEW_TEMPLATE = "task://{task_id}"

TOOL_DECLARATIONS: list[dict[str, Any]] = [
    {
        "name": "add_task",
        "description": "Create a new task. Use when user wants to add, create, or remember something.",
        "parameters": {
            "type": "object",
            "properties": {"description": {"type": "string", "description": "Task description"}},
            "required": ["description"],
        },
    },
    {
        "name": "list_tasks",
        "description": "Get user's tasks. Use when user wants to see, view, or list their tasks.",
        "parameters": {
            "type": "object",
            "properties": {
                "status": {
                    "type": "string",
                    "enum": ["pending", "completed", "all"],
                    "description": "Filter by status (default: all)",
                }
            },
        },
    },
    {
        "name": "update_task",
        "description": "Update a task's description. Use when user wants to change, edit, or rename a task.",
        "parameters": {
            "type": "object",
            "properties": {
                "task_id": {"type": "string", "description": "Task ID to update"},
                "description": {"type": "string", "description": "New description"},
            },
            "required": ["task_id", "description"],
        },
    },
    {
        "name": "complete_task",
        "description": "Mark a task as completed. Use when user says done, finished, or completed.",
        "parameters": {
            "type": "object",
            "properties": {"task_id": {"type": "string", "description": "Task ID to complete"}},
            "required": ["task_id"],
        },
    },
    {
        "name": "delete_task",
        "description": "Delete a task permanently. Use when user wants to remove or delete a task.",
        "parameters": {
            "type": "object",
            "properties": {"task_id": {"type": "string", "description": "Task ID to delete"}},
            "required": ["task_id"],
        },
    },
]
"""The declarations of the adapter contract (docs/contracts.md), word for word."""

TASK_TOOLS = tuple(ToolDeclaration.model_validate(declaration) for declaration in TOOL_DECLARATIONS)
"""`TOOL_DECLARATIONS` as models; the default declarations of every adapter."""


@dataclass(frozen=True, slots=True)
class ToolHints:
    """The part of a tool's MCP listing that the model does not read."""

    title: str
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    action: str | None = None
    """For a tool with a preview: the word that a confirmation shows before it."""


TOOL_HINTS = {
    "add_task": ToolHints("Add task"),
    "list_tasks": ToolHints("List tasks", read_only=True, idempotent=True),
    "update_task": ToolHints("Update task", destructive=True, idempotent=True, action="Update"),
    "complete_task": ToolHints("Complete task", idempotent=True, action="Complete"),
    "delete_task": ToolHints("Delete task", destructive=True, idempotent=True, action="Delete"),
}

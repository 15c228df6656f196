"""The declarations of the five tools of the task server, with the hints that its MCP listing adds.

Adapters import this module, so it loads neither the MCP SDK nor SQLAlchemy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graph_agent.models.llm import ToolDeclaration

PREVIEW_TEMPLATE = "task://{task_id}"


def _declare(name: str, text: str, /, *, required: bool = True, **arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the declaration of a tool with these arguments, all of which are texts."""
    schema = {"type": "object", "properties": {name: {"type": "string", **about} for name, about in arguments.items()}}
    return {"name": name, "description": text, "parameters": {**schema, **({"required": [*arguments]} if required else {})}}


TOOL_DECLARATIONS = [
    _declare(
        "add_task",
        "Create a new task. Use when user wants to add, create, or remember something.",
        description={"description": "Task description"},
    ),
    _declare(
        "list_tasks",
        "Get user's tasks. Use when user wants to see, view, or list their tasks.",
        required=False,
        status={"enum": ["pending", "completed", "all"], "description": "Filter by status (default: all)"},
    ),
    _declare(
        "update_task",
        "Update a task's description. Use when user wants to change, edit, or rename a task.",
        task_id={"description": "Task ID to update"},
        description={"description": "New description"},
    ),
    _declare(
        "complete_task",
        "Mark a task as completed. Use when user says done, finished, or completed.",
        task_id={"description": "Task ID to complete"},
    ),
    _declare(
        "delete_task",
        "Delete a task permanently. Use when user wants to remove or delete a task.",
        task_id={"description": "Task ID to delete"},
    ),
]
"""The declarations of the adapter contract (docs/library.md), word for word."""

TASK_TOOLS = tuple(ToolDeclaration.model_validate(declaration) for declaration in TOOL_DECLARATIONS)
"""`TOOL_DECLARATIONS` as models; the default declarations of every adapter."""


@dataclass(frozen=True, slots=True)
class ToolHints:
    """The part of a tool's MCP listing that the model does not read."""

    title: str
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    preview: bool = False
    """True if the server can describe the task of a call."""


TOOL_HINTS = {
    "add_task": ToolHints("Add task"),
    "list_tasks": ToolHints("List tasks", read_only=True, idempotent=True),
    "update_task": ToolHints("Update task", destructive=True, idempotent=True, preview=True),
    "complete_task": ToolHints("Complete task", idempotent=True, preview=True),
    "delete_task": ToolHints("Delete task", destructive=True, idempotent=True, preview=True),
}

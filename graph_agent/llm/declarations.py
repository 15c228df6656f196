"""The task tools as the adapter contract declares them, and the picking of declarations by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graph_agent.errors import ToolNotFoundError
from graph_agent.models.llm import ToolDeclaration

TASK_TOOLS: tuple[ToolDeclaration, ...] = (
    ToolDeclaration(
        name="add_task",
        description="Create a new task. Use when user wants to add, create, or remember something.",
        parameters={
            "type": "object",
            "properties": {"description": {"type": "string", "description": "Task description"}},
            "required": ["description"],
        },
    ),
    ToolDeclaration(
        name="list_tasks",
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
    ),
    ToolDeclaration(
        name="update_task",
        description="Update a task's description. Use when user wants to change, edit, or rename a task.",
        parameters={
            "type": "object",
            "properties": {
                "task_id": {"type": "string", "description": "Task ID to update"},
                "description": {"type": "string", "description": "New description"},
            },
            "required": ["task_id", "description"],
        },
    ),
    ToolDeclaration(
        name="complete_task",
        description="Mark a task as completed. Use when user says done, finished, or completed.",
        parameters={
            "type": "object",
            "properties": {"task_id": {"type": "string", "description": "Task ID to complete"}},
            "required": ["task_id"],
        },
    ),
    ToolDeclaration(
        name="delete_task",
        description="Delete a task permanently. Use when user wants to remove or delete a task.",
        parameters={
            "type": "object",
            "properties": {"task_id": {"type": "string", "description": "Task ID to delete"}},
            "required": ["task_id"],
        },
    ),
)


def select(declarations: Sequence[ToolDeclaration], names: Iterable[str]) -> list[ToolDeclaration]:
    """The declarations called `names`, in the order of `names`. Raises `ToolNotFoundError` for a name that is not there."""
    by_name = {declaration.name: declaration for declaration in declarations}
    chosen: list[ToolDeclaration] = []
    for name in names:
        if name not in by_name:
            raise ToolNotFoundError(f"no declaration for the tool {name!r}")
        chosen.append(by_name[name])
    return chosen

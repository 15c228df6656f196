"""The conversation of `graph-agent demo`, and the decision to which each of its messages must lead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scene:
    """One message, and the decision that it must lead to."""

    title: str
    says: str
    decision: str
    outcome: str
    tools: tuple[str, ...] = ()


SCENES = (
    Scene("Add", "add a task to call mom", "INVOKE_TOOL", "SUCCESS:TASK_COMPLETED", ("add_task",)),
    Scene("Add", "remind me to buy groceries tomorrow", "INVOKE_TOOL", "SUCCESS:TASK_COMPLETED", ("add_task",)),
    Scene("List", "show my tasks", "INVOKE_TOOL", "SUCCESS:TASK_COMPLETED", ("list_tasks",)),
    Scene("Complete", "mark call mom as done", "INVOKE_TOOL", "SUCCESS:TASK_COMPLETED", ("list_tasks", "complete_task")),
    Scene("Clarify", "groceries", "ASK_CLARIFICATION", "AMBIGUITY:UNCLEAR_INTENT"),
    Scene("Refuse", "what's the weather?", "RESPOND_ONLY", "REFUSAL:OUT_OF_SCOPE"),
    Scene("Delete: ask first", "delete the groceries task", "REQUEST_CONFIRMATION", "SUCCESS:RESPONSE_GIVEN", ("list_tasks",)),
    Scene("Delete: confirmed", "yes", "EXECUTE_PENDING", "SUCCESS:TASK_COMPLETED", ("delete_task",)),
    Scene("What is left", "show my tasks", "INVOKE_TOOL", "SUCCESS:TASK_COMPLETED", ("list_tasks",)),
)
TRACED = 3
"""The scene whose record is printed at the end."""

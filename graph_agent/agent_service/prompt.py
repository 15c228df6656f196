"""The system prompt of the agent service."""

from __future__ import annotations

from pydantic import Field, field_validator

from graph_agent.models.base import Frozen, NotBlank

OPERATIONAL_RULES = (
    "You can ONLY manage tasks for the authenticated user",
    "NEVER access or modify tasks for other users",
    "Always include the correct user_id in all tool calls",
    "Check current time when processing time-relative queries (today, tomorrow)",
    "If a tool fails, explain the error in user-friendly language",
)
RESPONSE_GUIDELINES = (
    "Keep responses concise (under 200 words)",
    "Maintain a friendly, helpful tone",
    "Avoid technical jargon",
    "Provide actionable next steps when appropriate",
)
TOOL_USAGE = """\
Available tools:
- add_task: Create new tasks
- list_tasks: View user's tasks (supports filtering by status)
- complete_task: Mark tasks as completed
- update_task: Modify task title or description
- delete_task: Permanently remove tasks

Always validate user_id matches the authenticated user before calling tools."""


class SystemPrompt(Frozen):
    """Role, rules and tone for the model. The constitution alone decides what may be done."""

    role_definition: NotBlank = "You are a helpful Todo Assistant"
    operational_rules: list[str] = Field(default_factory=lambda: list(OPERATIONAL_RULES))
    response_guidelines: list[str] = Field(default_factory=lambda: list(RESPONSE_GUIDELINES))
    tool_usage_instructions: NotBlank = TOOL_USAGE

    @field_validator("operational_rules")
    @classmethod
    def _must_include_user_isolation(cls, value: list[str]) -> list[str]:
        if not any("user" in rule.lower() and "only" in rule.lower() for rule in value):
            raise ValueError("operational_rules must include user isolation rule")
        return value

    @field_validator("response_guidelines")
    @classmethod
    def _must_include_conciseness(cls, value: list[str]) -> list[str]:
        if not any("concise" in guideline.lower() for guideline in value):
            raise ValueError("response_guidelines must include conciseness rule")
        return value

    def to_prompt_string(self, user_id: str) -> str:
        """Return the prompt for one user."""
        rules = "\n".join(f"- {rule}" for rule in self.operational_rules)
        guidelines = "\n".join(f"- {guideline}" for guideline in self.response_guidelines)
        return f"""{self.role_definition} for user {user_id}.

CRITICAL RULES:
{rules}

RESPONSE GUIDELINES:
{guidelines}

{self.tool_usage_instructions}

Remember: You can only help with task management. For other requests, politely explain your limitations."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from graph_agent.agent_service import SystemPrompt


def test_the_default_prompt_is_the_documented_one() -> None:
    assert SystemPrompt().to_prompt_string("ann") == (
        "You are a helpful Todo Assistant for user ann.\n"
        "\n"
        "CRITICAL RULES:\n"
        "- You can ONLY manage tasks for the authenticated user\n"
        "- NEVER access or modify tasks for other users\n"
        "- Always include the correct user_id in all tool calls\n"
        "- Check current time when processing time-relative queries (today, tomorrow)\n"
        "- If a tool fails, explain the error in user-friendly language\n"
        "\n"
        "RESPONSE GUIDELINES:\n"
        "- Keep responses concise (under 200 words)\n"
        "- Maintain a friendly, helpful tone\n"
        "- Avoid technical jargon\n"
        "- Provide actionable next steps when appropriate\n"
        "\n"
        "Available tools:\n"
        "- add_task: Create new tasks\n"
        "- list_tasks: View user's tasks (supports filtering by status)\n"
        "- complete_task: Mark tasks as completed\n"
        "- update_task: Modify task title or description\n"
        "- delete_task: Permanently remove tasks\n"
        "\n"
        "Always validate user_id matches the authenticated user before calling tools.\n"
        "\n"
        "Remember: You can only help with task management. For other requests, politely explain your limitations."
    )


def test_one_rule_and_one_guideline_of_ones_own_are_enough() -> None:
    prompt = SystemPrompt(
        role_definition="You are a butler",
        operational_rules=["Serve this User and Only this one"],
        response_guidelines=["Be CONCISE"],
        tool_usage_instructions="Ring the bell.",
    )
    assert prompt.to_prompt_string("u").startswith("You are a butler for user u.\n\nCRITICAL RULES:\n- Serve this User")


def test_every_prompt_has_lists_of_its_own() -> None:
    assert SystemPrompt().operational_rules is not SystemPrompt().operational_rules


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"role_definition": ""}, "role_definition must not be empty"),
        ({"role_definition": " \n"}, "role_definition must not be empty"),
        ({"operational_rules": []}, "operational_rules must include user isolation rule"),
        ({"operational_rules": ["the user is king", "only the best"]}, "operational_rules must include user isolation rule"),
        ({"response_guidelines": []}, "response_guidelines must include conciseness rule"),
        ({"response_guidelines": ["Be brief"]}, "response_guidelines must include conciseness rule"),
        ({"tool_usage_instructions": ""}, "tool_usage_instructions must not be empty"),
    ],
)
def test_a_prompt_without_its_rules_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        SystemPrompt(**given)

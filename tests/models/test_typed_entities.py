"""The documented entities constructed by position, as a type checker reads it: mypy checks this file too.

An `ignore` here is a test: mypy reports it if the error does not occur.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from graph_agent import (
    AgentDecision,
    AgentEngineConfig,
    DecisionType,
    FunctionCall,
    FunctionResponse,
    LLMConfig,
    LLMMessage,
    LLMResponse,
    Message,
    TokenUsage,
    ToolCall,
    ToolDeclaration,
    ToolResult,
)


def test_the_documented_calls_are_well_typed() -> None:
    AgentDecision(DecisionType.INVOKE_TOOL, tool_calls=[ToolCall("add_task", {"description": "x"}, 1)], response_text=None)
    AgentEngineConfig(3, 10, 0.5)
    FunctionCall("add_task", {"description": "call mom"})
    FunctionResponse("add_task", {"success": True})
    LLMConfig("key", "gemini-3.8-flash", 0.5)
    LLMMessage("user", "hi")
    LLMResponse(None, None, "error", error="down")
    Message("user", "hi")
    TokenUsage(3, 4, 7)
    ToolDeclaration("add_task", "Create a task", {"type": "object"})
    ToolResult(True, {"id": 7})


def test_a_wrong_type_is_an_error_for_the_checker_and_when_it_runs() -> None:
    with pytest.raises(ValidationError):
        Message("user", 7)  # type: ignore[arg-type]  # the content is text
    with pytest.raises(ValidationError):
        FunctionCall()  # type: ignore[call-arg]  # a call has a name
    with pytest.raises(TypeError, match="takes 9 positional arguments"):
        ToolResult(True, {}, None, None, 0, [], None, "", False, "more")  # type: ignore[call-arg]  # it has nine fields

"""The entities that the documents show as dataclasses can be constructed by position, and stay frozen models."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

import graph_agent
from graph_agent import (
    AgentDecision,
    AgentEngineConfig,
    DecisionContext,
    DecisionType,
    FunctionCall,
    FunctionResponse,
    LLMConfig,
    LLMError,
    LLMMessage,
    LLMResponse,
    LLMTimeoutError,
    Message,
    TokenUsage,
    ToolCall,
    ToolDeclaration,
    ToolResult,
    UserIntent,
)
from graph_agent.models.base import Frozen
from graph_agent.models.llm import LLMErrorCode
from graph_agent.models.record import RecordHeader

CALL = FunctionCall(name="add_task", arguments={"description": "call mom"})
ANSWER = FunctionResponse(name="add_task", response={"success": True})
USAGE = TokenUsage(prompt_tokens=3, completion_tokens=4, total_tokens=7)


@pytest.mark.parametrize(
    ("model", "arguments", "fields"),
    [
        (FunctionCall, ("add_task", {"a": 1}), {"name": "add_task", "arguments": {"a": 1}}),
        (FunctionResponse, ("add_task", {"success": True}), {"name": "add_task", "response": {"success": True}}),
        (ToolDeclaration, ("a", "b", {"type": "object"}), {"name": "a", "description": "b", "parameters": {"type": "object"}}),
        (TokenUsage, (3, 4, 7), {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}),
        (LLMMessage, ("user", "hi"), {"role": "user", "content": "hi"}),
        (LLMMessage, ("assistant", None, CALL), {"role": "assistant", "function_call": CALL}),
        (LLMMessage, ("function", None, None, ANSWER), {"role": "function", "function_response": ANSWER}),
        (LLMResponse, ("Hi.", None, "stop", USAGE), {"content": "Hi.", "finish_reason": "stop", "usage": USAGE}),
        (LLMResponse, (None, [CALL], "tool_calls"), {"function_calls": [CALL], "finish_reason": "tool_calls"}),
        (LLMResponse, (None, None, "error", None, "down"), {"finish_reason": "error", "error": "down"}),
        (Message, ("user", "hi"), {"role": "user", "content": "hi", "timestamp": None}),
        (ToolCall, ("add_task", {"a": 1}, 2), {"tool_name": "add_task", "parameters": {"a": 1}, "sequence": 2}),
        (ToolResult, (True, {"id": 7}), {"success": True, "data": {"id": 7}}),
        (LLMConfig, ("key", "gemini-3.8-flash", 0.5), {"api_key": "key", "model": "gemini-3.8-flash", "temperature": 0.5}),
        (AgentEngineConfig, (3, 10, 0.5), {"max_iterations": 3, "include_history_messages": 10, "temperature": 0.5}),
    ],
)
def test_an_entity_is_constructed_by_position(model: Any, arguments: tuple[Any, ...], fields: dict[str, Any]) -> None:
    constructed = model(*arguments)
    assert constructed == model(**fields) == model.model_validate(constructed.to_json())
    with pytest.raises(ValidationError, match="frozen"):
        # The attempt must fail.
        setattr(constructed, next(iter(fields)), None)


def test_position_and_name_can_be_mixed_but_not_doubled() -> None:
    assert LLMResponse("Hi.", finish_reason="stop") == LLMResponse(content="Hi.", finish_reason="stop")
    with pytest.raises(TypeError, match="multiple values for keyword argument 'name'"):
        FunctionCall("add_task", name="add_task")  # type: ignore[misc]  # the mistake
    with pytest.raises(TypeError, match="FunctionCall takes 3 positional arguments, but 4 were given"):
        FunctionCall("add_task", {}, "id", "more")  # type: ignore[call-arg]  # the mistake
    with pytest.raises(ValidationError):
        FunctionCall("add_task", 7)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("model", [DecisionContext, UserIntent, RecordHeader])
def test_other_models_take_their_fields_by_name_only(model: type[Frozen]) -> None:
    with pytest.raises(TypeError, match="takes 0 positional arguments"):
        model("ann")


def test_validation_does_not_pass_through_the_constructor() -> None:
    # Pydantic would otherwise call `__init__` for every nested model, and report errors without their path.
    assert not FunctionCall.__pydantic_custom_init__
    with pytest.raises(ValidationError) as refused:
        LLMResponse.model_validate({"finish_reason": "stop", "function_calls": [{"name": 7}]})
    assert refused.value.errors()[0]["loc"] == ("function_calls", 0, "name")


def test_messages_of_unknown_time_are_equal_and_make_equal_contexts() -> None:
    contexts = [
        DecisionContext(user_id="ann", message="hi", conversation_id="c1", message_history=[Message("user", "hello")])
        for _ in range(2)
    ]
    assert contexts[0].model_dump_json() == contexts[1].model_dump_json()


def test_a_decision_that_requests_tools_may_have_no_text() -> None:
    decision = AgentDecision(DecisionType.INVOKE_TOOL, tool_calls=[ToolCall("add_task", {})], response_text=None)
    assert (decision.reply, decision.tool_calls) == ("", [ToolCall(tool_name="add_task", parameters={}, sequence=1)])
    for kind in set(DecisionType) - {DecisionType.INVOKE_TOOL}:
        with pytest.raises(ValidationError):
            AgentDecision(kind)
    with pytest.raises(ValidationError, match="exactly one"):
        AgentDecision(DecisionType.INVOKE_TOOL, None, "a text", "and a question?")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, None),
        (LLMErrorCode.TIMEOUT, LLMErrorCode.TIMEOUT),
        ("RATE_LIMITED", LLMErrorCode.RATE_LIMITED),
        ("quota exceeded for project 7", LLMErrorCode.UNAVAILABLE),
    ],
)
def test_an_error_is_a_code_or_the_adapters_own_text(error: str | None, code: LLMErrorCode | None) -> None:
    response = LLMResponse(None, None, "error", error=error)
    assert (response.error, response.error_code) == (error, code)
    assert LLMResponse.model_validate_json(response.model_dump_json()) == response


def test_the_documented_errors_have_message_code_and_retry_after() -> None:
    error = LLMError("slow down", "429", 7)
    assert (error.message, error.code, error.retry_after, str(error)) == ("slow down", "429", 7, "slow down")
    for name in ("LLMError", "RateLimitError", "TimeoutError", "InvalidResponseError", "ToolNotFoundError"):
        assert issubclass(getattr(graph_agent, name), LLMError)
    assert graph_agent.TimeoutError is LLMTimeoutError
    assert issubclass(LLMTimeoutError, asyncio.TimeoutError)


def test_the_documented_constants_are_public() -> None:
    assert {tool["name"] for tool in graph_agent.TOOL_DECLARATIONS} == graph_agent.ALLOWED_TOOLS
    assert (graph_agent.MAX_TOOL_ITERATIONS, graph_agent.MAX_RESPONSE_TOKENS, graph_agent.DEFAULT_TEMPERATURE) == (5, 1024, 0.0)
    assert (graph_agent.MAX_MESSAGE_LENGTH, graph_agent.MAX_HISTORY_MESSAGES) == (4000, 20)

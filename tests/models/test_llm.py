"""Validation of the messages, requests and responses of a model."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from graph_agent.models.llm import (
    FunctionCall,
    FunctionResponse,
    LLMErrorCode,
    LLMMessage,
    LLMRequest,
    LLMResponse,
    TokenUsage,
    ToolDeclaration,
)

CALL = {"name": "add_task", "arguments": {"description": "x"}}
RESPONSE = {"name": "add_task", "response": {"success": True}}


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hi"},
        {"role": "assistant", "function_call": CALL},
        {"role": "assistant", "function_calls": [CALL, CALL], "content": "both"},
        {"role": "function", "function_response": RESPONSE},
        {"role": "assistant", "function_call": CALL, "provider_parts": {"provider": "gemini"}},
    ],
)
def test_a_message_with_the_fields_of_its_role_is_accepted(fields: dict[str, Any]) -> None:
    message = LLMMessage.model_validate(fields)
    assert LLMMessage.model_validate_json(message.model_dump_json()) == message


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "user"},
        {"role": "user", "content": ""},
        {"role": "assistant"},
        {"role": "assistant", "content": ""},
        {"role": "function"},
        {"role": "function", "content": "x"},
        {"role": "system", "content": "x"},
        {"role": "user", "content": "x", "function_call": CALL},
        {"role": "function", "function_response": RESPONSE, "function_call": CALL},
        {"role": "user", "content": "x", "function_response": RESPONSE},
        {"role": "assistant", "content": "x", "function_response": RESPONSE},
        {"role": "assistant", "function_calls": []},
        {"role": "assistant", "function_call": CALL, "function_calls": [CALL, CALL]},
        {"role": "user", "content": "x", "provider_parts": {}},
        {"role": "user", "content": "x", "name": "ann"},
    ],
)
def test_a_message_with_fields_of_another_role_is_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LLMMessage.model_validate(fields)


def test_function_call_is_the_one_call_form_of_function_calls() -> None:
    one = LLMMessage(role="assistant", function_call=FunctionCall(name="a"))
    many = LLMMessage(role="assistant", function_calls=[FunctionCall(name="a")])
    assert one == many
    assert LLMMessage(role="assistant", function_calls=[FunctionCall(name="a"), FunctionCall(name="b")]).function_call is None


def test_a_call_that_will_be_refused_can_be_represented() -> None:
    assert FunctionCall(name="drop_table", arguments={"anything": [1, {"x": None}]}).id is None


@pytest.mark.parametrize("field", ["name", "response"])
def test_a_function_response_needs_name_and_response(field: str) -> None:
    with pytest.raises(ValidationError):
        FunctionResponse.model_validate({key: value for key, value in RESPONSE.items() if key != field})


def test_a_request_has_the_documented_defaults() -> None:
    request = LLMRequest(messages=[LLMMessage(role="user", content="hi")], tools=[])
    assert (request.temperature, request.max_tokens, request.system_instruction) == (0.0, 1024, None)


@pytest.mark.parametrize(
    "problem", [{"temperature": -0.1}, {"temperature": 2.1}, {"max_tokens": 0}, {"temperature": float("nan")}]
)
def test_a_request_out_of_range_is_rejected(problem: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LLMRequest.model_validate({"messages": [], "tools": [], **problem})


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "max_tokens", "error"])
def test_a_response_has_one_of_four_finish_reasons(reason: str) -> None:
    assert LLMResponse.model_validate({"finish_reason": reason}).finish_reason == reason


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"finish_reason": "length"},
        {"finish_reason": "stop", "error": "TIMEOUT"},
        {"finish_reason": "error", "error": "TIMEOUT", "retry_after": -1},
    ],
)
def test_any_other_response_is_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LLMResponse.model_validate(fields)


def test_the_error_codes_are_these() -> None:
    assert set(LLMErrorCode) == {"RATE_LIMITED", "TIMEOUT", "INVALID_RESPONSE", "UNAVAILABLE", "BLOCKED"}


def test_usage_adds_up_field_by_field() -> None:
    one = TokenUsage(prompt_tokens=1, completion_tokens=2, total_tokens=9)
    assert one + one == TokenUsage(prompt_tokens=2, completion_tokens=4, total_tokens=18)
    with pytest.raises(ValidationError):
        TokenUsage(prompt_tokens=-1, completion_tokens=0, total_tokens=0)
    with pytest.raises(ValidationError):
        TokenUsage(prompt_tokens=2**53, completion_tokens=0, total_tokens=0)
    many = TokenUsage(prompt_tokens=2**53 - 1, completion_tokens=0, total_tokens=0)
    assert many + many == many


def test_a_declaration_needs_a_name() -> None:
    with pytest.raises(ValidationError):
        ToolDeclaration(name="", description="", parameters={})


def test_models_are_frozen_equal_by_value_and_hashable() -> None:
    call = FunctionCall(name="a", arguments={"x": [1, {"y": 2}], "z": 1})
    same = FunctionCall(name="a", arguments={"z": 1, "x": [1, {"y": 2}]})
    assert len({call, same}) == 1
    with pytest.raises(ValidationError):
        call.name = "b"  # the test is that this assignment fails

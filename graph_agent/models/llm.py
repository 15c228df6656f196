"""What is said to a model and what it answers.

Whether a call's name or arguments are allowed is the guard's business: a call that will be refused must be representable.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, model_validator

from graph_agent.models.base import Frozen

MAX_RESPONSE_TOKENS = 1024
DEFAULT_TEMPERATURE = 0.0
MAX_TOKENS_COUNTED = 2**53 - 1
"""More than this no JSON number says exactly, and twice that no database column holds."""


class LLMErrorCode(StrEnum):
    """Why a model call ended with `finish_reason="error"`."""

    RATE_LIMITED = "RATE_LIMITED"
    TIMEOUT = "TIMEOUT"
    INVALID_RESPONSE = "INVALID_RESPONSE"
    UNAVAILABLE = "UNAVAILABLE"
    BLOCKED = "BLOCKED"


class FunctionCall(Frozen):
    """A tool call the model asks for. `id` is the provider's own, kept exactly when it gave one."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    id: str | None = None


class FunctionResponse(Frozen):
    """The answer to one `FunctionCall`; `id` echoes the call's."""

    name: str
    response: dict[str, Any]
    id: str | None = None


class LLMMessage(Frozen):
    """One message of the conversation as a model sees it.

    `provider_parts` is the provider's own form of an assistant message (signatures, thoughts, ids), opaque to everybody but
    the adapter that made it: `{"provider": "gemini", ...}`.
    """

    role: Literal["user", "assistant", "function"]
    content: str | None = None
    function_call: FunctionCall | None = None
    function_calls: list[FunctionCall] | None = None
    function_response: FunctionResponse | None = None
    provider_parts: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_call_has_two_forms(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        one, many = data.get("function_call"), data.get("function_calls")
        if one is not None and many is None:
            return {**data, "function_calls": [one]}
        if one is None and many is not None and len(many) == 1:
            return {**data, "function_call": many[0]}
        return data

    @model_validator(mode="after")
    def _role_decides_what_is_carried(self) -> LLMMessage:
        if self.function_calls is not None and not self.function_calls:
            raise ValueError("function_calls must not be empty: leave it out")
        if self.function_call is not None and self.function_calls != [self.function_call]:
            raise ValueError("function_call is the one-call form of function_calls: the two must agree")
        if self.function_calls and self.role != "assistant":
            raise ValueError("only an assistant message may carry function calls")
        if (self.function_response is not None) != (self.role == "function"):
            raise ValueError("function_response belongs to role 'function', and only there")
        needs_content = self.role == "user" or (self.role == "assistant" and not self.function_calls)
        if needs_content and not self.content:
            raise ValueError(f"content is required for role '{self.role}'")
        if self.provider_parts is not None and self.role != "assistant":
            raise ValueError("only an assistant message has provider_parts")
        return self


class ToolDeclaration(Frozen):
    """A function a model is told about; `parameters` is a JSON Schema."""

    name: str = Field(min_length=1)
    description: str
    parameters: dict[str, Any]


class TokenUsage(Frozen):
    """Tokens of one call, or of a turn. Providers' totals may not add up, so `total_tokens` is kept as it was given."""

    prompt_tokens: int = Field(ge=0, le=MAX_TOKENS_COUNTED)
    completion_tokens: int = Field(ge=0, le=MAX_TOKENS_COUNTED)
    total_tokens: int = Field(ge=0, le=MAX_TOKENS_COUNTED)

    def __add__(self, other: TokenUsage) -> TokenUsage:
        mine, theirs = dict(self), dict(other)
        return TokenUsage(**{name: min(count + theirs[name], MAX_TOKENS_COUNTED) for name, count in mine.items()})


class LLMRequest(Frozen):
    """What goes to an adapter in one call."""

    system_instruction: str | None = None
    messages: list[LLMMessage]
    tools: list[ToolDeclaration]
    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0.0, le=2.0)
    max_tokens: int = Field(default=MAX_RESPONSE_TOKENS, gt=0)


class LLMResponse(Frozen):
    """What came back from an adapter, good or bad."""

    content: str | None = None
    function_calls: list[FunctionCall] | None = None
    finish_reason: Literal["stop", "tool_calls", "max_tokens", "error"]
    usage: TokenUsage | None = None
    error: LLMErrorCode | None = None
    retry_after: float | None = Field(default=None, ge=0)
    provider_parts: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _error_is_told_apart(self) -> LLMResponse:
        if self.error is not None and self.finish_reason != "error":
            raise ValueError("an error code goes with finish_reason 'error'")
        return self

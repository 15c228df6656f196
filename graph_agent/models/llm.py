"""Requests to a language model and its responses.

The classes accept any name and any arguments of a call: the guard decides what is allowed, and a refused call must be
representable.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from operator import not_
from typing import Any, Literal

from pydantic import Field, model_validator

from graph_agent.errors import ToolNotFoundError
from graph_agent.models.base import Frozen

MAX_RESPONSE_TOKENS = 1024
DEFAULT_TEMPERATURE = 0.0
MAX_TOKENS_COUNTED = 2**53 - 1
"""The largest integer that a JSON number represents exactly; the sum of two still fits a BIGINT column."""


ToolChoice = Literal["auto", "required"]
"""`required`: the model must end its response with a call, of a tool or of a reply form."""


class LLMErrorCode(StrEnum):
    """The reason of `finish_reason="error"`."""

    RATE_LIMITED = "RATE_LIMITED"
    """The provider refused because of a quota."""
    TIMEOUT = "TIMEOUT"
    """There was no complete answer in time."""
    INVALID_RESPONSE = "INVALID_RESPONSE"
    """The response is empty, malformed or of the wrong shape."""
    UNAVAILABLE = "UNAVAILABLE"
    """The provider does not answer, or refuses the request."""
    BLOCKED = "BLOCKED"
    """The provider's content filter blocked the answer."""

    @classmethod
    def of(cls, text: object) -> LLMErrorCode:
        """Return the code that `text` names; UNAVAILABLE, the general failure, if it names none."""
        return cls(text) if isinstance(text, str) and text in cls.__members__ else cls.UNAVAILABLE


class LLMErrorCause(StrEnum):
    """The cause of a failed call, for the operator. A value of `LLMErrorCode` among them says that no finer cause is known."""

    RATE_LIMITED = "RATE_LIMITED"
    TIMEOUT = "TIMEOUT"
    INVALID_RESPONSE = "INVALID_RESPONSE"
    UNAVAILABLE = "UNAVAILABLE"
    BLOCKED = "BLOCKED"
    KEY_REFUSED = "KEY_REFUSED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    TOOLS_NOT_SUPPORTED = "TOOLS_NOT_SUPPORTED"
    CONTEXT_EXCEEDED = "CONTEXT_EXCEEDED"
    CALLS_AS_TEXT = "CALLS_AS_TEXT"
    REPEATED_CALLS = "REPEATED_CALLS"
    REQUEST_REFUSED = "REQUEST_REFUSED"
    QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"
    TURN_TOKENS = "TURN_TOKENS"
    DAY_TOKENS = "DAY_TOKENS"
    SERVER_ERROR = "SERVER_ERROR"
    UNREACHABLE = "UNREACHABLE"
    NOT_JSON = "NOT_JSON"
    SCRIPT_ENDED = "SCRIPT_ENDED"
    CANCELLED = "CANCELLED"
    STOPPED = "STOPPED"
    RULES_REPLACED = "RULES_REPLACED"


class ContextOverflow(Frozen):
    """The sizes in tokens of a request and of the context that it did not fit; None if the provider does not name it."""

    request_tokens: int | None = Field(default=None, ge=0)
    context_tokens: int | None = Field(default=None, ge=0)


class FunctionCall(Frozen, kw_only=False):
    """A call that the model requests. `id` is the provider's id of the call, None if it has none."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    id: str | None = None


class FunctionResponse(Frozen, kw_only=False):
    """The answer to one `FunctionCall`; `id` echoes the call's."""

    name: str
    response: dict[str, Any]
    id: str | None = None


class LLMMessage(Frozen, kw_only=False):
    """One message of the conversation, as the model sees it.

    `provider_parts` is the provider's own form of an assistant message (signatures, thoughts, ids), opaque to all code
    except the adapter that created it: `{"provider": "gemini", ...}`.
    """

    role: Literal["user", "assistant", "function"]
    content: str | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    function_calls: list[FunctionCall] | None = None
    provider_parts: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_both_call_forms(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        one, many = data.get("function_call"), data.get("function_calls")
        if one is not None and many is None:
            return {**data, "function_calls": [one]}
        if one is None and many is not None and len(many) == 1:
            return {**data, "function_call": many[0]}
        return data

    @model_validator(mode="after")
    def _has_the_fields_of_its_role(self) -> LLMMessage:
        if self.function_calls is not None and not self.function_calls:
            raise ValueError("function_calls must not be empty: leave it out")
        if self.function_call is not None and self.function_calls != [self.function_call]:
            raise ValueError("function_call is the one-call form of function_calls: the two must agree")
        if self.function_calls and self.role != "assistant":
            raise ValueError("only an assistant message may have function calls")
        if (self.function_response is not None) != (self.role == "function"):
            raise ValueError("function_response belongs to role 'function', and only there")
        needs_content = self.role == "user" or (self.role == "assistant" and not self.function_calls)
        if needs_content and not self.content:
            raise ValueError(f"content is required for role '{self.role}'")
        if self.provider_parts is not None and self.role != "assistant":
            raise ValueError("only an assistant message has provider_parts")
        return self


NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
"""The schema of a tool without parameters. Gemini refuses a required request with a declaration that has no schema."""


class ToolDeclaration(Frozen, kw_only=False):
    """A function that is offered to the model; `parameters` is a JSON Schema."""

    name: str = Field(min_length=1)
    description: str
    parameters: dict[str, Any]


def select_declarations(declarations: Iterable[ToolDeclaration], names: Iterable[str]) -> list[ToolDeclaration]:
    """Return the declarations called `names`, in that order. Raises `ToolNotFoundError` for a name that is not declared."""
    by_name = {declaration.name: declaration for declaration in declarations}
    try:
        return [by_name[name] for name in names]
    except KeyError as exc:
        raise ToolNotFoundError(f"no declaration for the tool {exc}") from exc


class TokenUsage(Frozen, kw_only=False):
    """Tokens of one call or of a turn. `total_tokens` is the provider's figure, which may differ from the sum."""

    prompt_tokens: int = Field(ge=0, le=MAX_TOKENS_COUNTED)
    completion_tokens: int = Field(ge=0, le=MAX_TOKENS_COUNTED)
    total_tokens: int = Field(ge=0, le=MAX_TOKENS_COUNTED)
    # Left out of the JSON if it is 0.
    cached_tokens: int = Field(default=0, ge=0, le=MAX_TOKENS_COUNTED, exclude_if=not_)
    """The part of `prompt_tokens` that the provider read from its cache."""

    def __add__(self, other: TokenUsage) -> TokenUsage:
        mine, theirs = dict(self), dict(other)
        return TokenUsage(**{name: min(count + theirs[name], MAX_TOKENS_COUNTED) for name, count in mine.items()})


class LLMRequest(Frozen):
    """The input of one adapter call."""

    system_instruction: str | None = None
    messages: list[LLMMessage]
    tools: list[ToolDeclaration]
    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0.0, le=2.0)
    max_tokens: int = Field(default=MAX_RESPONSE_TOKENS, gt=0)
    tool_choice: ToolChoice = "auto"


class LLMResponse(Frozen, kw_only=False):
    """The result of one adapter call, successful or not."""

    content: str | None = None
    function_calls: list[FunctionCall] | None = None
    # Required. The explicit default lets type checkers accept it after optional fields.
    finish_reason: Literal["stop", "tool_calls", "max_tokens", "error"] = Field(default=...)
    usage: TokenUsage | None = None
    error: str | None = None
    """A value of `LLMErrorCode`, or the adapter's own text, which is recorded but never shown to a user."""
    retry_after: float | None = Field(default=None, ge=0)
    provider_parts: dict[str, Any] | None = None
    # Left out of the JSON if it is None.
    response_model: str | None = Field(default=None, max_length=255, exclude_if=lambda value: value is None)
    """The model that answered, by its own statement. A provider may route a request to another model than the requested one."""

    # Left out of the JSON if it is None, for the same reason.
    cause: LLMErrorCause | None = Field(default=None, exclude_if=lambda value: value is None)
    """A finer cause of the error than its code, if the adapter knows one."""

    # Left out of the JSON if it is None.
    overflow: ContextOverflow | None = Field(default=None, exclude_if=lambda value: value is None)
    """The sizes that go with the cause CONTEXT_EXCEEDED."""

    @model_validator(mode="after")
    def _error_has_its_finish_reason(self) -> LLMResponse:
        if self.error is not None and self.finish_reason != "error":
            raise ValueError("an error code goes with finish_reason 'error'")
        return self

    @property
    def error_code(self) -> LLMErrorCode | None:
        return None if self.error is None else LLMErrorCode.of(self.error)

    @property
    def error_cause(self) -> LLMErrorCause:
        """The cause of a response that cannot be used; the general one of its code if the adapter named none."""
        return self.cause or LLMErrorCause(self.error_code or LLMErrorCode.INVALID_RESPONSE)

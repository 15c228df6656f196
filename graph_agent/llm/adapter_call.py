"""The call of a model adapter that an application passes in, such as one written from the adapter contract."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import Any

from pydantic import ValidationError

from graph_agent.errors import ConfigurationError, LLMError, ToolNotFoundError
from graph_agent.llm.shipped_tools import SHIPPED_TOOLS
from graph_agent.models.llm import LLMErrorCode, LLMMessage, LLMRequest, LLMResponse, ToolDeclaration, select_declarations
from graph_agent.ports import ContractMethod, LLMAdapter


class AdapterCall:
    """Calls an adapter that may have only `generate`, and not all of its parameters.

    If the method does not accept `system_instruction`, the system prompt is the first message, with the role user.
    """

    def __init__(self, adapter: LLMAdapter) -> None:
        optional = ("temperature", "max_tokens", "system_instruction", "tool_choice")
        self._declare = getattr(adapter, "get_tool_declarations", partial(select_declarations, SHIPPED_TOOLS))
        self._generate = ContractMethod(adapter, "generate", ("messages", "tools"), optional)

    async def __call__(self, request: LLMRequest) -> LLMResponse:
        # A copy, because an adapter must not be able to change the turn's state.
        messages = list(request.messages)
        if request.system_instruction and not self._generate.accepts("system_instruction"):
            messages.insert(0, LLMMessage(role="user", content=request.system_instruction))
        response: LLMResponse = await self._generate(
            messages=messages,
            tools=list(request.tools),
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            system_instruction=request.system_instruction,
            tool_choice=request.tool_choice,
        )
        return response

    def declarations(self, names: Iterable[str]) -> list[ToolDeclaration]:
        """Return the declarations of those `names` that the adapter knows.

        An adapter without a method for declarations knows the shipped tools.
        """
        declared: list[ToolDeclaration] = []
        for name in names:
            with suppress(ToolNotFoundError, LookupError):
                declared += map(as_declaration, self._declare([name]))
        return declared


def as_declaration(tool: Any) -> ToolDeclaration:
    """Return a declaration that an adapter or executor gave, as a model or in its JSON form. Raises `ConfigurationError`."""
    try:
        return ToolDeclaration.model_validate(tool)
    except ValidationError as exc:
        raise ConfigurationError(f"not a tool declaration (name, description, parameters): {type(tool).__name__}") from exc


def model_name(adapter: object) -> str:
    """Return the name of an adapter's model for the record: its `model` if that is a string, else the name of its class."""
    model = getattr(adapter, "model", None)
    return model if isinstance(model, str) and model else type(adapter).__name__


def failed_response(error: LLMError) -> LLMResponse:
    """Return the response for an error that an adapter raised.

    The `default_code` of a subclass of `LLMError`, if it has its own, takes precedence over the `code` of the instance.
    """
    by_class = error.default_code != LLMError.default_code
    wait = error.retry_after
    valid = isinstance(wait, int | float) and isfinite(wait) and wait >= 0
    code = LLMErrorCode.of(error.default_code if by_class else error.code)
    return LLMResponse(finish_reason="error", error=code, retry_after=wait if valid else None)

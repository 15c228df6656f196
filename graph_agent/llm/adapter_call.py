"""Calls of model adapters: inside the package by a request object, to an application's own adapter by its parameters."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import Any

from pydantic import ValidationError

from graph_agent.errors import ConfigurationError, LLMError, ToolNotFoundError
from graph_agent.llm.prompt_size import missing_declarations
from graph_agent.models.llm import (
    DEFAULT_TEMPERATURE,
    MAX_RESPONSE_TOKENS,
    ContextOverflow,
    LLMErrorCause,
    LLMErrorCode,
    LLMMessage,
    LLMRequest,
    LLMResponse,
    ToolChoice,
    ToolDeclaration,
    select_declarations,
)
from graph_agent.ports import ContractMethod, LLMAdapter
from graph_agent.task_server.declarations import TASK_TOOLS, TOOL_HINTS

_log = logging.getLogger(__name__)


def is_documented_read(tool_name: str) -> bool:
    """True for a tool of the adapter contract that only reads: `list_tasks`. It holds where nothing else is declared."""
    return tool_name in TOOL_HINTS and TOOL_HINTS[tool_name].read_only


class RequestAdapter(ABC):
    """An `LLMAdapter` whose subclass answers a request object. The runtime passes it on as it is."""

    def __init__(self, declarations: Sequence[ToolDeclaration] | None = None) -> None:
        """Without `declarations` it knows those of the shipped tools; turns take theirs from the policy."""
        self._declarations = TASK_TOOLS if declarations is None else tuple(declarations)

    @property
    @abstractmethod
    def model(self) -> str:
        """The model's name, for the record."""

    @abstractmethod
    async def respond(self, request: LLMRequest) -> LLMResponse:
        """Return one response of the model. Raises `LLMError`."""

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = DEFAULT_TEMPERATURE,
        max_tokens: int = MAX_RESPONSE_TOKENS,
        *,
        system_instruction: str | None = None,
        tool_choice: ToolChoice = "auto",
    ) -> LLMResponse:
        """Return one response to a request that is given by its parts, as the adapter contract has it. Raises `LLMError`."""
        request = LLMRequest(
            system_instruction=system_instruction,
            messages=messages,
            tools=tools,
            temperature=temperature,
            max_tokens=max_tokens,
            tool_choice=tool_choice,
        )
        return await self.respond(request)

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return select_declarations(self._declarations, tools)


class AdapterCall:
    """Calls an adapter that may have only `generate`, and not all of its parameters.

    If the method does not accept `system_instruction`, the system prompt is the first message, with the role user.
    """

    def __init__(self, adapter: LLMAdapter) -> None:
        optional = ("temperature", "max_tokens", "system_instruction", "tool_choice")
        self._declare = getattr(adapter, "get_tool_declarations", partial(select_declarations, TASK_TOOLS))
        self._generate = ContractMethod(adapter, "generate", ("messages", "tools"), optional)
        # A subclass that overrides `generate`, for example to log the calls, is called by it.
        overridden = getattr(type(adapter), "generate", None) is not RequestAdapter.generate
        self._warned = False
        """True after the log has said that the declarations do not reach the model."""
        self._respond = adapter.respond if isinstance(adapter, RequestAdapter) and not overridden else self._by_parts

    async def __call__(self, request: LLMRequest) -> LLMResponse:
        """Return the adapter's response; that of its error if it raises `LLMError`."""
        try:
            response = await self._respond(request)
        except LLMError as exc:
            failed = failed_response(exc)
            _log.warning("model call failed: %s", failed.error)
            return failed
        if not self._warned and request.tools and not response.function_calls:
            self._warn_of_missing_declarations(request, response)
        return response

    def _warn_of_missing_declarations(self, request: LLMRequest, response: LLMResponse) -> None:
        """Warn once if the model answers without a call because it was not given the functions."""
        if (tokens := missing_declarations(request, response)) is not None:
            self._warned = True
            text = "the model read %d prompt tokens, too few for its %d functions: `graph-agent doctor` says what to do"
            _log.warning(text, tokens, len(request.tools))

    async def _by_parts(self, request: LLMRequest) -> LLMResponse:
        # A copy, because an adapter must not be able to change the turn's state.
        arguments = {**dict(request), "messages": list(request.messages), "tools": list(request.tools)}
        if request.system_instruction and not self._generate.accepts("system_instruction"):
            arguments["messages"].insert(0, LLMMessage(role="user", content=request.system_instruction))
        response: LLMResponse = await self._generate(**arguments)
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
    cause = LLMErrorCause.__members__.get(error.cause or "")
    tokens = error.overflow
    overflow = None if tokens is None else ContextOverflow(request_tokens=tokens[0], context_tokens=tokens[1])
    wait = wait if valid else None
    return LLMResponse(finish_reason="error", error=code, retry_after=wait, cause=cause, overflow=overflow)

"""Calls of the model adapter and the tool executor that an application passes in, with the parameters that they accept.

The basic signatures are `generate(messages, tools, temperature, max_tokens)` and `execute(tool_name, parameters, user_id)`. The
runtime has further arguments, such as `deadline`, and passes those that the method accepts. A method that cannot be called at
all is rejected when the engine is constructed.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from math import isfinite
from typing import Any

from graph_agent.errors import ConfigurationError, LLMError
from graph_agent.models.llm import LLMErrorCode, LLMMessage, LLMRequest, LLMResponse
from graph_agent.ports import LLMAdapter


class ContractMethod:
    """A method of an adapter or executor, called with the arguments that it accepts; its signature is read once."""

    def __init__(self, owner: object, name: str, required: Sequence[str], optional: Sequence[str]) -> None:
        """`required` are the parameters that the method must accept. Raises `ConfigurationError`, which names the parameter."""
        method = getattr(owner, name, None)
        where = f"{type(owner).__name__}.{name}()"
        if not callable(method):
            raise ConfigurationError(f"{type(owner).__name__} has no method '{name}'")
        self._method = method
        self._accepted = frozenset((*required, *optional))
        try:
            parameters = inspect.signature(method).parameters
        except (TypeError, ValueError):
            return  # a callable without a readable signature gets every parameter
        # A plain function would block the event loop; other callables may return an awaitable.
        plain = inspect.unwrap(getattr(method, "__func__", method))
        if inspect.isfunction(plain) and not inspect.iscoroutinefunction(plain):
            raise ConfigurationError(f"{where} must be a coroutine function: define it with 'async def'")
        kinds = inspect.Parameter
        by_keyword = (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
        for name, parameter in parameters.items():
            is_needed = parameter.default is kinds.empty and parameter.kind in (*by_keyword, kinds.POSITIONAL_ONLY)
            if is_needed and (name not in self._accepted or parameter.kind is kinds.POSITIONAL_ONLY):
                raise ConfigurationError(f"{where} requires the parameter '{name}', which is not passed to it")
        if all(parameter.kind is not kinds.VAR_KEYWORD for parameter in parameters.values()):
            self._accepted &= {name for name, parameter in parameters.items() if parameter.kind in by_keyword}
        for name in required:
            if name not in self._accepted:
                raise ConfigurationError(f"{where} does not accept the parameter '{name}'")

    def accepts(self, parameter: str) -> bool:
        return parameter in self._accepted

    async def __call__(self, **arguments: Any) -> Any:
        return await self._method(**{name: value for name, value in arguments.items() if name in self._accepted})


class AdapterCall:
    """Calls `adapter.generate`.

    If the method does not accept `system_instruction`, the system prompt is the first message, with the role user.
    """

    def __init__(self, adapter: LLMAdapter) -> None:
        optional = ("temperature", "max_tokens", "system_instruction", "tool_choice")
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

"""Methods of an application's own adapter or executor, called with the arguments that their signatures accept.

The required methods are `generate(messages, tools, temperature, max_tokens)` and `execute(tool_name, parameters, user_id)`.
The runtime has further arguments, such as `deadline`, and passes those that the method accepts. A method that cannot be called
at all is rejected when the engine is constructed.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from graph_agent.errors import ConfigurationError


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

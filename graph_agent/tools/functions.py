"""A tool executor for plain Python functions, without a server."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import to_jsonable_python

from graph_agent.errors import ToolErrorCode, ToolRefusal
from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult

logger = logging.getLogger(__name__)

USER = "user_id"
"""A parameter of this name gets the signed-in user; the model neither sees nor sets it."""

NOT_FOUND = ToolResult.failed(ToolErrorCode.TOOL_NOT_FOUND, "There is no such tool.")
INVALID_ARGUMENTS = ToolResult.failed(ToolErrorCode.VALIDATION_ERROR, "The arguments are not valid.")
FAILED = ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "The tool failed.")
CHANGE_FAILED = ToolResult.failed(ToolErrorCode.TOOL_REPORTED_FAILURE, "The tool failed; what was done before is not known.")


class FunctionTools:
    """Runs functions as tools: the name, docstring and annotations of each are what the model sees.

    A function may be async; any other runs in a thread, so that it does not stop the turns of other users. It returns JSON
    values. To report a failure that changed nothing it raises `ToolRefusal`, or returns a `ToolResult`.
    """

    def __init__(self, *functions: Callable[..., Any]) -> None:
        """Raises TypeError for a function without a docstring, or with parameters that have no annotation."""
        self._functions = {function.__name__: function for function in functions}
        self._arguments = {name: _arguments(function) for name, function in self._functions.items()}

    def declarations(self) -> list[ToolDeclaration]:
        """Return the declarations of all functions."""
        return [
            ToolDeclaration(
                name=name, description=inspect.getdoc(function) or "", parameters=self._arguments[name].model_json_schema()
            )
            for name, function in self._functions.items()
        ]

    async def execute(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, operation_key: str | None = None
    ) -> ToolResult:
        """Call a function. An exception is a failed call; that of a change, which has an operation key, may be half done."""
        function = self._functions.get(tool_name)
        if function is None:
            return NOT_FOUND
        try:
            arguments = dict(self._arguments[tool_name].model_validate(parameters))
        except ValidationError:
            return INVALID_ARGUMENTS
        if USER in inspect.signature(function).parameters:
            arguments[USER] = user_id
        try:
            if inspect.iscoroutinefunction(function):
                returned = await function(**arguments)
            else:
                returned = await asyncio.to_thread(_run, function, arguments)
                # A decorator may hide that the function is async.
                returned = await returned if inspect.isawaitable(returned) else returned
            # Here, because a function whose result is of no use may have changed something.
            return returned if isinstance(returned, ToolResult) else result_of(returned)
        except ToolRefusal as refusal:
            return ToolResult.failed(refusal.code, refusal.sentence)
        except (Exception, SystemExit) as error:  # A tool that exits must not end the process of all users.
            logger.error("the tool %s failed", tool_name, exc_info=error)
            return FAILED if operation_key is None else CHANGE_FAILED


def _run(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return function(**arguments)
    except (StopIteration, SystemExit) as error:
        # No future can carry the first, so its caller would wait for ever; the second would end the event loop.
        raise RuntimeError(f"the function raised {type(error).__name__}") from error


def result_of(returned: Any) -> ToolResult:
    """Return the result with what a function returned. Raises ValueError for what JSON does not have."""
    data = to_jsonable_python(returned)
    canonical_json(data)
    return ToolResult(success=True, data=data if isinstance(data, dict | list) or data is None else {"result": data})


def _arguments(function: Callable[..., Any]) -> type[BaseModel]:
    """Return a model of the function's parameters, without the user."""
    if not inspect.getdoc(function):
        raise TypeError(f"{function.__name__} needs a docstring: it tells the model what the tool does")
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if parameter.annotation is inspect.Parameter.empty or parameter.kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
            inspect.Parameter.POSITIONAL_ONLY,
        ):
            raise TypeError(f"the parameter '{name}' of {function.__name__} needs an annotation and a name")
        if name != USER:
            fields[name] = (parameter.annotation, ... if parameter.default is inspect.Parameter.empty else parameter.default)
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)

"""A tool executor for plain Python functions, without a server."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python

from graph_agent.errors import ToolErrorCode, ToolRefusal
from graph_agent.ledger.contained import await_contained, run_contained
from graph_agent.ledger.signatures import signature_of
from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits

logger = logging.getLogger(__name__)

FUNCTIONS_DATABASE = "GRAPH_AGENT_FUNCTIONS_DATABASE"
"""The variable of a server of functions. Not an argument, because others can read those, and a URL may have a password."""
USER = "user_id"
"""A parameter of this name gets the signed-in user; the model neither sees nor sets it."""

_FIELD = "parameter_of_the_function_"
_MARK = re.compile(r"(?P<before>.*\S) *\((?P<words>reads|(?:requires|without) confirmation|at most \d+ per message)\)\.?")
_MARKS = {"reads": ToolTraits(read_only=True), "requires confirmation": ToolTraits(destructive=True)}
"""The marks of a docstring: the function only reads, or the constitution may not leave out the question."""

NOT_FOUND = ToolResult.failed(ToolErrorCode.TOOL_NOT_FOUND, "There is no such tool.")
INVALID_ARGUMENTS = ToolResult.failed(ToolErrorCode.VALIDATION_ERROR, "The arguments are not valid.")
FAILED = ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "The tool failed.")
CHANGE_FAILED = ToolResult.failed(ToolErrorCode.TOOL_REPORTED_FAILURE, "The tool failed; what was done before is not known.")


class FunctionTools:
    """Runs functions as tools: the name, docstring and annotations of each are what the model sees.

    A function may be async; any other runs in a thread, so that it does not stop the turns of other users. It returns JSON
    values. The first line of its docstring may end with `(reads)` or `(requires confirmation)`, as a line of the constitution.
    To report a failure that changed nothing it raises `ToolRefusal`, or returns a `ToolResult`.
    """

    def __init__(self, *functions: Callable[..., Any]) -> None:
        """Raises TypeError for a function without a docstring, and for parameters without an annotation that JSON can have."""
        self._functions = {function.__name__: function for function in functions}
        self._described = {name: describe(function) for name, function in self._functions.items()}
        self._arguments = {name: _arguments(function) for name, function in self._functions.items()}
        self._declarations = [
            ToolDeclaration(name, self._described[name][0], _schema(self._functions[name], model))
            for name, model in self._arguments.items()
        ]

    def get_available_tools(self) -> list[str]:
        """Return the names of the functions."""
        return list(self._functions)

    def declarations(self) -> list[ToolDeclaration]:
        """Return the declarations of all functions."""
        return list(self._declarations)

    def traits(self, tool_name: str) -> ToolTraits:
        """Return what the docstring of a function says about it; for a function that there is not, the defaults."""
        return self._described.get(tool_name, ("", ToolTraits()))[1]

    async def execute(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str | None = None,
        deadline: float | None = None,  # noqa: ARG002 (the engine has the time limit)
    ) -> ToolResult:
        """Call a function. An exception is a failed call; that of a change, which has an operation key, may be half done."""
        function = self._functions.get(tool_name)
        if function is None:
            return NOT_FOUND
        try:
            arguments = _parameters(function, self._arguments[tool_name].model_validate(parameters))
        except ValidationError:
            return INVALID_ARGUMENTS
        if USER in inspect.signature(function).parameters:
            arguments[USER] = user_id
        try:
            if inspect.iscoroutinefunction(function):
                returned = await await_contained(function(**arguments))
            else:
                returned = await asyncio.to_thread(run_contained, function, **arguments)
                # A decorator may hide that the function is async.
                returned = await await_contained(returned) if inspect.isawaitable(returned) else returned
            # Here, because a function whose result is of no use may have changed something.
            return returned if isinstance(returned, ToolResult) else result_of(returned)
        except ToolRefusal as refusal:
            return ToolResult.failed(refusal.code, refusal.sentence)
        except Exception as error:
            logger.error("the tool %s failed", tool_name, exc_info=error)
            return FAILED if operation_key is None else CHANGE_FAILED


def result_of(returned: Any) -> ToolResult:
    """Return the result with what a function returned. Raises ValueError for what JSON does not have."""
    data = to_jsonable_python(returned)
    canonical_json(data)
    return ToolResult(success=True, data=data if isinstance(data, dict | list) or data is None else {"result": data})


def describe(function: Callable[..., Any]) -> tuple[str, ToolTraits]:
    """Return the docstring of a function without its marks, and what the marks say. Raises TypeError."""
    text = inspect.getdoc(function)
    if not text:
        raise TypeError(f"{function.__name__} needs a docstring: it tells the model what the tool does")
    first, newline, rest = text.partition("\n")
    found: set[str] = set()
    while mark := _MARK.fullmatch(first):
        first = mark["before"]
        found.add(mark["words"])
    if others := found - _MARKS.keys():
        raise TypeError(f"the docstring of {function.__name__} says ({others.pop()}), which only the constitution can say")
    if len(found) > 1:
        raise TypeError(f"the docstring of {function.__name__} says both (reads) and (requires confirmation)")
    traits = _MARKS[found.pop()] if found else ToolTraits()
    return f"{first}{newline}{rest}", traits


def _schema(function: Callable[..., Any], arguments: type[BaseModel]) -> dict[str, Any]:
    try:
        return arguments.model_json_schema()
    except PydanticUserError as error:
        raise _unusable(function, error) from None


def _arguments(function: Callable[..., Any]) -> type[BaseModel]:
    """Return a model of the function's parameters, without the user. The names of the parameters are aliases of its fields."""
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, parameter in signature_of(function).parameters.items():
        if parameter.annotation is inspect.Parameter.empty or parameter.kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
            inspect.Parameter.POSITIONAL_ONLY,
        ):
            raise TypeError(f"the parameter '{name}' of {function.__name__} needs an annotation and a name")
        if name != USER:
            # A parameter may have any name, such as `_id` or `model_dump`; a field may not.
            field = f"{_FIELD}{len(fields)}"
            names[field] = name
            fields[field] = (parameter.annotation, ... if parameter.default is inspect.Parameter.empty else parameter.default)
    # The types within the parameters inherit the configuration: the names of their fields stay.
    config = ConfigDict(extra="forbid", alias_generator=lambda field: names.get(field, field))
    try:
        return create_model(function.__name__, __config__=config, **fields)
    except PydanticUserError as error:
        raise _unusable(function, error) from None


def _parameters(function: Callable[..., Any], arguments: BaseModel) -> dict[str, Any]:
    """Return the values of the parameters of a function, by their names."""
    names = [name for name in inspect.signature(function).parameters if name != USER]
    return {name: value for name, (_, value) in zip(names, arguments, strict=True)}


def _unusable(function: Callable[..., Any], error: PydanticUserError) -> TypeError:
    if error.code == "typed-dict-version":
        return TypeError(
            f"a parameter of {function.__name__} has a typing.TypedDict, which cannot be read before Python 3.12: "
            "import TypedDict from typing_extensions"
        )
    return TypeError(f"a parameter of {function.__name__} has a type that JSON does not have")

"""Python functions as an MCP server over stdio, in a process of their own: an entry `{"functions": "inventory.py"}`.

    python -P -m graph_agent.tools.function_server inventory.py

The tools are the functions that the file or module defines and whose names begin with no underscore. A function with a
parameter of the type `sqlalchemy.Connection` runs under the operation ledger, in the transaction of that connection; any other
runs as it does in `FunctionTools`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

from mcp.server.mcpserver import Context
from mcp.types import Tool, ToolAnnotations

from graph_agent.db import Database
from graph_agent.errors import REFUSAL_CODES, ToolErrorCode, ToolRefusal
from graph_agent.ledger.contained import run_until_done
from graph_agent.ledger.protocol import ResultEnvelope
from graph_agent.ledger.requests import RefusedRequestError, RequestMeta, call_result
from graph_agent.ledger.server import LedgerServer, connection_of, tables_of
from graph_agent.ledger.signatures import signature_of
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.tools.functions import FUNCTIONS_DATABASE, USER, FunctionTools, describe, result_of

_FUNCTIONS = (FunctionType, MethodType, type(functools.cache(len)))
"""The kinds of functions that are offered; the last one is that of `functools.lru_cache`."""


class FunctionsError(Exception):
    """The functions cannot be served; one sentence."""


class FunctionServer(LedgerServer):
    """The functions of a module as tools."""

    def __init__(self, module: ModuleType, database: Database) -> None:
        """Raises TypeError for a function that cannot be a tool."""
        super().__init__(module.__name__, database, tables_of(vars(module)))
        functions = functions_of(module)
        self._names = list(functions)
        plain = {name: one for name, one in functions.items() if connection_of(one) is None}
        self._plain = FunctionTools(*plain.values())
        self._listed = [
            Tool(
                name=one.name,
                description=one.description,
                input_schema=one.parameters,
                annotations=_hints(self._plain.traits(one.name)),
            )
            for one in self._plain.declarations()
        ]
        for name in functions.keys() - plain.keys():
            description, traits = describe(functions[name])
            declare = self.read_with if traits.read_only else self.change_with
            declare(_hints(traits))(_in_transaction(functions[name], description))

    async def list_tools(self) -> list[Tool]:
        tools = [*self._listed, *await super().list_tools()]
        return sorted(tools, key=lambda tool: self._names.index(tool.name))

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        if name not in self._plain.get_available_tools():
            return await super().call_tool(name, arguments, context)
        try:
            meta = RequestMeta.of(context, None)
        except RefusedRequestError as refusal:
            return call_result(refusal.result)
        key = None if meta.operation is None else meta.operation.key
        return call_result(_envelope(await self._plain.execute(name, arguments, meta.user_id, operation_key=key)))


def functions_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the functions that are tools, in their order.

    Raises TypeError if there are none, and for what is callable but has no name, docstring or parameters of its own.
    """
    functions: dict[str, Callable[..., Any]] = {}
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, functools.partial):
            raise TypeError(f"{name} is a functools.partial: write a function that calls it, or begin its name with _")
        if _is_decorated(name, value):
            raise TypeError(
                f"{name} is the function {value.__name__} of a decorator, whose name and parameters a model would see: "
                "give it functools.wraps"
            )
        if isinstance(value, _FUNCTIONS) and value.__module__ == module.__name__:
            functions[name] = value
    if not functions:
        raise TypeError("it defines no function whose name begins with a letter")
    if other := next((name for name, one in functions.items() if one.__name__ != name), None):
        raise TypeError(f"{other} is another name of {functions[other].__name__}")
    return functions


def _is_decorated(name: str, value: Any) -> bool:
    """True for the inner function of another one, under a name that is not its own."""
    return inspect.isfunction(value) and value.__name__ != name and "<locals>" in value.__qualname__


def _hints(traits: ToolTraits) -> ToolAnnotations:
    return ToolAnnotations(read_only_hint=traits.read_only, destructive_hint=traits.destructive, open_world_hint=False)


def _in_transaction(function: Callable[..., Any], description: str) -> Callable[..., dict[str, Any] | None]:
    """Return the function as the ledger calls it: with the connection and the user first, and an object as its result."""
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{function.__name__} must not be async: it runs in a thread, inside the transaction")
    signature = signature_of(function)
    takes = connection_of(function)
    parameters = [one for name, one in signature.parameters.items() if name not in (takes, USER)]
    if any(one.annotation is inspect.Parameter.empty for one in parameters):
        raise TypeError(f"a parameter of {function.__name__} needs an annotation")

    def run(connection: Any, user_id: str, **arguments: Any) -> dict[str, Any] | None:
        user = {USER: user_id} if USER in signature.parameters else {}
        returned = function(**{str(takes): connection}, **user, **arguments)
        if not isinstance(returned, ToolResult):
            return _envelope(result_of(returned)).data
        if not returned.success:
            # As an exception, so that the transaction is rolled back.
            code = returned.error_code if returned.error_code in REFUSAL_CODES else None
            raise ToolRefusal(returned.error or "The tool refused the call.", code or ToolErrorCode.TOOL_REFUSED)
        return _envelope(returned).data

    own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("connection", "user_id")]
    run.__name__, run.__doc__ = function.__name__, description
    run.__signature__ = inspect.Signature([*own, *parameters])  # type: ignore[attr-defined]  # mypy does not know the attribute
    return run


def _envelope(result: ToolResult) -> ResultEnvelope:
    """Return the result as MCP carries it, whose data is an object."""
    data = result.data if isinstance(result.data, dict) or result.data is None else {"result": result.data}
    return ResultEnvelope(success=result.success, data=data, error=result.error, error_code=result.error_code)


def load(source: str) -> ModuleType:
    """Import the file or module. Raises `FunctionsError`."""
    try:
        # What it prints would be read as messages of the protocol.
        with contextlib.redirect_stdout(sys.stderr):
            if not source.endswith(".py"):
                sys.path.insert(0, str(Path.cwd()))
                return importlib.import_module(source)
            path = Path(source).resolve()
            if not path.is_file():
                raise FunctionsError(f"there is no file {source}")
            # So that it can import the files beside it.
            sys.path.insert(0, str(path.parent))
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    except FunctionsError:
        raise
    except (Exception, SystemExit) as error:
        raise FunctionsError(f"{source} cannot be imported: {type(error).__name__}: {error}") from error


def open_server(source: str, database: str | None) -> FunctionServer:
    """Return the server of a file or module; `database` is by default a SQLite file beside it. Raises `FunctionsError`."""
    module = load(source)
    try:
        if not any(connection_of(one) for one in functions_of(module).values()):
            database = "sqlite://"
        file = Path(module.__file__ or source).with_suffix(".db")
        return FunctionServer(module, Database.open(database or f"sqlite:///{file}"))
    except Exception as error:
        raise FunctionsError(f"{source}: {error}") from error


def main() -> None:
    try:
        server = open_server(sys.argv[1], os.environ.get(FUNCTIONS_DATABASE))
    except FunctionsError as error:
        sys.exit(" ".join(str(error).split()))
    # A function that interrupts its own process must not end it for all: the client ends it by closing its input.
    signal.signal(signal.SIGINT, lambda *_: None)
    run_until_done(server.run_stdio_async())


if __name__ == "__main__":
    main()

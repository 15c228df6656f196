"""An MCP server whose changes take effect exactly once: the helper for server authors.

    notes = Table("notes", metadata, Column("user_id", String(255)), Column("text", Text))
    server = LedgerServer("notes", Database.open("sqlite:///notes.db"), metadata, default_user="ann")

    @server.change("Write note")
    def write_note(connection: Connection, user_id: str, text: str) -> dict[str, Any]:
        "Write a note."
        connection.execute(insert(notes), {"user_id": user_id, "text": text})
        return {"receipt": f"wrote {quoted(text)}"}

    server.run("stdio")

A function gets a connection in a transaction and the user; the parameters behind them are the tool's arguments. The effect and
its operation key are committed together, and an exception rolls both back.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeVar

from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, ToolAnnotations
from pydantic import ValidationError
from pydantic_core import to_jsonable_python
from sqlalchemy import Connection, MetaData
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.clock import SystemClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.errors import REFUSAL_CODES, ToolErrorCode, ToolRefusal
from graph_agent.ledger.contained import run_contained
from graph_agent.ledger.operations import Operation, OperationLedger, operations_table
from graph_agent.ledger.protocol import ResultEnvelope, change_meta
from graph_agent.ledger.requests import RefusedRequestError, RequestMeta, call_result
from graph_agent.ledger.signatures import signature_of

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., dict[str, Any] | None])

_Run = Callable[[Any, Context[Any, Any], dict[str, Any]], Awaitable[ResultEnvelope]]
"""Runs a function as a change or as a read, with the arguments of a request."""

UNKNOWN_ARGUMENT = ResultEnvelope.failed(ToolErrorCode.VALIDATION_ERROR, "There is an argument that this tool does not take.")
INVALID_ARGUMENTS = ResultEnvelope.failed(ToolErrorCode.VALIDATION_ERROR, "The arguments are not valid.")
FAILED = ResultEnvelope.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "The tool failed; nothing was changed.")
NOT_DONE = ResultEnvelope.failed(ToolErrorCode.DATABASE_ERROR, "The data is not available right now; nothing was changed.")
OUTCOME_UNKNOWN = ResultEnvelope.failed(
    ToolErrorCode.UNKNOWN_ERROR, "The data is not available right now; it is not known what was done."
)


class LedgerServer(MCPServer[Any]):
    """An `MCPServer` with tools on the tables of one database, for the users of an agent."""

    def __init__(
        self, name: str, database: Database, tables: MetaData, *, default_user: str | None = None, **options: Any
    ) -> None:
        """Create the missing `tables` and the table of operations, which is added to `tables`.

        `default_user` is the user of requests that name none, such as those of an ordinary MCP client. `options` are passed to
        `MCPServer`. The caller closes the database.
        """
        super().__init__(name, **{"log_level": "WARNING", "subscriptions": False, **options})
        self._database = database
        self._default_user = default_user
        self._ledger = OperationLedger(database, operations_table(tables))
        database.write_now(tables.create_all)

    def change(
        self,
        title: str,
        *,
        destructive: bool = False,
        idempotent: bool = False,
        preview: str | None = None,
    ) -> Callable[[Function], Function]:
        """Declare a function as a tool that changes something. It returns the data of the result.

        People read the call in the sentence of its line in the constitution. The data may have the `preview` of the changed
        object, which `{preview}` says where it was not read before, and a `receipt`, which they read beside the sentence.
        `preview` is the URI template of a `preview` function.
        """
        hints = ToolAnnotations(
            read_only_hint=False, destructive_hint=destructive, idempotent_hint=idempotent, open_world_hint=False
        )
        return self._tool(self._change, title, hints, change_meta(preview))

    def change_with(self, hints: ToolAnnotations) -> Callable[[Function], Function]:
        """Declare a function as a change without a title: questions and receipts have the summary of the constitution."""
        return self._tool(self._change, None, hints, change_meta())

    def read_with(self, hints: ToolAnnotations) -> Callable[[Function], Function]:
        """Declare a function as a read without a title."""
        return self._tool(self._read, None, hints)

    def read(self, title: str) -> Callable[[Function], Function]:
        """Declare a function as a tool that only reads. It returns the data of the result."""
        hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
        return self._tool(self._read, title, hints)

    def preview(self, template: str) -> Callable[[Function], Function]:
        """Declare a function as the preview behind a URI template, such as `note://{note_id}`.

        It returns a dict with a `description`, or None if there is nothing under this id.
        """

        def declare(function: Function) -> Function:
            async def show(context: Context[Any, Any], **arguments: Any) -> str:
                result = await _result_of(function, self._read(function, context, arguments))
                if result.success and result.data:
                    return json.dumps(result.data, ensure_ascii=False)
                missing = result.success or result.error_code in REFUSAL_CODES
                raise MCPError(INVALID_PARAMS if missing else INTERNAL_ERROR, result.error or "There is nothing under this id.")

            self.resource(template, name=function.__name__, mime_type="application/json")(
                _with_arguments_of(function, show, str)
            )
            return function

        return declare

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        # The SDK drops arguments that a tool does not take: the change would be another one than the caller meant.
        tool = self._tool_manager.get_tool(name)
        if tool is not None and not arguments.keys() <= tool.parameters.get("properties", {}).keys():
            return call_result(UNKNOWN_ARGUMENT)
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                # The envelope says that nothing was done, which the error of a tool does not say.
                return call_result(INVALID_ARGUMENTS)
            raise

    def _tool(
        self, run: _Run, title: str | None, hints: ToolAnnotations, meta: dict[str, Any] | None = None
    ) -> Callable[[Function], Function]:
        def declare(function: Function) -> Function:
            async def call(context: Context[Any, Any], **arguments: Any) -> CallToolResult:
                return call_result(await _result_of(function, run(function, context, arguments)))

            self.add_tool(_with_arguments_of(function, call), title=title, annotations=hints, meta=meta)
            return function

        return declare

    async def _change(self, function: Function, context: Context[Any, Any], arguments: dict[str, Any]) -> ResultEnvelope:
        meta = RequestMeta.of(context, self._default_user, change=True)
        try:
            given, now = to_jsonable_python(arguments), SystemClock().now()
            operation = Operation.requested(meta.operation, meta.user_id, function.__name__, given, now)
        except ValueError:  # NaN or an infinity, which the SDK reads from a text.
            return INVALID_ARGUMENTS

        def effect(connection: Connection) -> ResultEnvelope:
            return ResultEnvelope.done(**(run_contained(function, connection, meta.user_id, **arguments) or {}))

        return await self._ledger.answer(meta.operation, operation, effect)

    async def _read(self, function: Function, context: Context[Any, Any], arguments: dict[str, Any]) -> ResultEnvelope:
        user_id = RequestMeta.of(context, self._default_user).user_id

        def read(connection: Connection) -> ResultEnvelope:
            return ResultEnvelope.done(**(run_contained(function, connection, user_id, **arguments) or {}))

        return await self._database.read(read)


def connection_of(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that takes a connection; None if there is none."""
    parameters = signature_of(function).parameters.values()
    return next((one.name for one in parameters if one.annotation is Connection), None)


def tables_of(names: Mapping[str, Any]) -> MetaData:
    """Return the tables that a module defines; none if it defines none. Raises TypeError if it has several `MetaData`."""
    found = {id(value): value for value in names.values() if isinstance(value, MetaData)}
    if len(found) > 1:
        raise TypeError("it has several MetaData: its tables need one")
    return next(iter(found.values()), MetaData())


async def _result_of(function: Function, work: Awaitable[ResultEnvelope]) -> ResultEnvelope:
    """Return the result of `work`; a failure says whether anything was changed."""
    try:
        return await work
    except RefusedRequestError as refusal:
        return refusal.result
    except ToolRefusal as refusal:
        return ResultEnvelope.failed(refusal.code, refusal.sentence)
    except DatabaseUnavailableError as error:
        logger.warning("the database of the tool %s is not available", function.__name__, exc_info=error)
        return OUTCOME_UNKNOWN if error.unknown else NOT_DONE
    except SQLAlchemyError as error:
        logger.error("the database of the tool %s refused a statement", function.__name__, exc_info=error)
        return NOT_DONE
    except Exception as error:
        logger.error("the tool %s failed and was rolled back", function.__name__, exc_info=error)
        return FAILED


def _with_arguments_of(function: Callable[..., Any], call: Callable[..., Any], returns: Any = None) -> Callable[..., Any]:
    """Return `call` with the name, the docstring and the arguments of `function`, from which the SDK derives the schema.

    Raises TypeError if `function` is async, or its first two parameters are not the connection and the user.
    """
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{function.__name__} must not be async: it runs in a thread, inside the transaction")
    parameters = list(signature_of(function).parameters.values())
    if len(parameters) < 2 or any(one.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for one in parameters):
        raise TypeError(f"{function.__name__} must take a connection, a user id and then the arguments of the tool")
    returns = returns or Annotated[CallToolResult, ResultEnvelope]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=Context)
    arguments = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters[2:]]
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__annotations__ = {**{one.name: one.annotation for one in (context, *arguments)}, "return": returns}
    call.__signature__ = inspect.Signature([context, *arguments], return_annotation=returns)  # type: ignore[attr-defined]  # mypy does not know the attribute
    return call

"""The `ToolServer` for one MCP server: in this process, a child process, or remote."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote

from mcp import ClientSession, MCPError, types
from mcp.server.mcpserver import MCPServer
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    ReadResourceResult,
    RequestParamsMeta,
    Tool,
)
from pydantic import TypeAdapter

from graph_agent.clock import SystemClock
from graph_agent.errors import RecordUnavailableError, StoppedError
from graph_agent.ledger.protocol import (
    ATTEMPT_META,
    LEDGER_META,
    OPERATION_META,
    PREVIEW_META,
    UNREAD_META,
    USER_META,
)
from graph_agent.models.canonical import canonical_json
from graph_agent.models.config import DEFAULT_CALL_SECONDS
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.net.permits import require_permit
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.key_location import KeyPlace
from graph_agent.policy.operation_key import SentKey
from graph_agent.policy.schema.check import ResultCheck
from graph_agent.policy.schema.keywords import SchemaRefusedError
from graph_agent.ports import Clock, SentCall
from graph_agent.tools import answers
from graph_agent.tools.identity import Identity, invalid_header
from graph_agent.tools.lists import all_prompts
from graph_agent.tools.parts import report_parts
from graph_agent.tools.passed_on import passed_on
from graph_agent.tools.progress import ProgressListener, ToolProgress, progress_listener
from graph_agent.tools.session import (
    MAX_BACK_OFF_SECONDS,
    SETTLEMENT_BACK_OFF_SECONDS,
    CircuitBreaker,
    Session,
    attempt,
    start_seconds,
)
from graph_agent.tools.transport import HEADERS_META, NO_ANSWER, HttpServer, Server, transport_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

READY_SECONDS = 2.0
"""The time limit of `ready`, and the least time to read the headers of a request."""

_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
_VARIABLE = re.compile(r"\{(\w+)\}")


class McpToolExecutor:
    """Calls the tools of one MCP server: an `MCPServer` object, a command to start, or a URL.

    One session serves all calls, including concurrent ones. It is opened by `start` or by the first call, and opened again
    after it has failed. A session belongs to the event loop in which it was opened; in another loop the executor opens another
    one. A call is sent at most once. `timeout` (seconds) limits every call, also one with a later deadline. `start_timeout`
    limits the connection: by default 60 s, or `timeout` if that is set.
    """

    def __init__(
        self,
        server: Server,
        *,
        timeout: float = DEFAULT_CALL_SECONDS,
        start_timeout: float | None = None,
        clock: Clock | None = None,
        name: str = "",
        trusted: bool | None = None,
        difference: Callable[[Tool], str | None] | None = None,
        identity: Identity | None = None,
    ) -> None:
        """`name` is the name of the server in log messages.

        A `trusted` server gets the user and the operation key of each call, and its ledger, previews and hints are believed.
        By default only a server in this process is trusted. `difference` says how a tool differs from its pinned definition;
        such a tool is refused. `identity` returns further headers for a server over HTTP.
        """
        self._identity = identity
        self.in_flight = 0
        """The number of requests that wait for an answer."""
        self._headers: dict[str, str] = {}
        if identity is not None and isinstance(server, HttpServer):
            self._headers.update(server.headers)
            server = replace(server, headers=self._headers)
        self._difference = difference or (lambda _: None)
        self.refused: Mapping[str, str] = {}
        """The tools that differ from their pinned definition, and how."""
        self.left_out: Mapping[str, str] = {}
        """The tools whose definition cannot be used, and why."""
        self._trusted = isinstance(server, MCPServer) if trusted is None else trusted
        self._server = server
        self._transport = transport_of(server)
        self._name = name
        self._timeout = timeout
        self._start_timeout = start_seconds(timeout, start_timeout)
        self._clock = clock or SystemClock()
        self._breaker = CircuitBreaker(self._clock)
        self._failure: str | None = None
        self._session: Session | None = None
        self._listed_tools: list[Tool] | None = None
        self._tools: dict[str, Tool] = {}
        self._output_schemas: dict[str, str] = {}
        """The texts of the output schemas of tools that were called."""
        self._declarations: list[ToolDeclaration] = []

    async def start(self) -> bool:
        """Open the session; return False if the server cannot be reached now.

        A later call tries again. A server that has failed before is connected to in the background, so that turns do not wait.
        """
        opened = await self._open(0.0 if self._breaker.failing else self._start_timeout)
        session = self._session
        if opened is None or session is None or not session.stale:
            return opened is not None
        # Only here, between turns: a turn keeps the definitions under which it began.
        await session.relist(opened, self._timeout)
        return await self._open(0.0) is not None

    async def ready(self) -> bool:
        """Return True if the server answers a request now, over a new session if necessary. Takes at most two seconds."""
        answer = await self._ask(lambda session: session.list_tools(), min(self._timeout, READY_SECONDS))
        return answer is not None and not isinstance(answer, BaseException)

    @property
    def connected(self) -> bool:
        """True if there is an open session."""
        return self._session is not None and self._session.open

    @property
    def failure(self) -> str | None:
        """The reason for which the server does not answer, in a few words, or None. It may contain text of the server."""
        session = self._session
        return self._failure if session is None else session.explanation

    async def aclose(self) -> None:
        """Close the session. A later call opens another one."""
        session, self._session = self._session, None
        if session is None:
            return
        if session.loop is asyncio.get_running_loop():
            await session.leave()
        else:
            # A session cannot be awaited from a loop other than its own.
            session.abandon()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.aclose()

    @property
    def listed(self) -> list[Tool]:
        """The tools that the server listed last, as MCP describes them, with those that are refused."""
        return list(self._listed_tools or [])

    @property
    def call_seconds(self) -> float:
        """The time limit of one call."""
        return self._timeout

    @property
    def answered(self) -> bool:
        """True after the server has listed its tools once."""
        return self._listed_tools is not None

    def tool(self, tool_name: str) -> Tool | None:
        """Return a tool as the server lists it, with hints that nothing checks; None if it has no such tool."""
        return self._tools.get(tool_name)

    def get_available_tools(self) -> list[str]:
        """Return the names of the server's tools in its order; empty before the first session."""
        return list(self._tools)

    def declarations(self) -> list[ToolDeclaration]:
        """Return the declarations of the server's tools with unchanged schemas; empty before the first session.

        The list is the same object until the server lists its tools again.
        """
        return self._declarations

    def traits(self, tool_name: str) -> ToolTraits:
        """Return the traits of one tool; for a tool that the server does not have, the defaults."""
        tool = self._tools.get(tool_name)
        if tool is None:
            return ToolTraits()
        hints = tool.annotations or types.ToolAnnotations()
        destructive = hints.destructive_hint is True
        if not self._trusted:
            # A hint can only restrict. A title would be what the user confirms, so the operator's own summary is shown.
            read_only = False if hints.read_only_hint is False else None
            return ToolTraits(
                read_only=read_only,
                destructive=destructive or None,
                untrusted=True,
                transport=self._transport,
                output=_data_schema(tool),
            )
        meta = tool.meta or {}
        return ToolTraits(
            title=tool.title or hints.title,
            read_only=hints.read_only_hint,
            destructive=destructive,
            ledger=meta.get(LEDGER_META) is True,
            transport=self._transport,
            preview=isinstance(meta.get(PREVIEW_META), str),
            output=_data_schema(tool),
            unread=_names(meta.get(UNREAD_META)),
        )

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None, tool: str | None = None) -> ToolResult:
        """Send a permitted call at most once; see `ToolServer`. `tool` is the server's own name of the tool, if it differs."""
        started = self._clock.monotonic()
        tool = tool or call.tool_name
        check = self._result_check(tool)
        meta = self._meta(call.user_id, call.operation_key if call.mutating else None, "run")
        if call.mutating:
            attempt = {"decision": call.decision_id, "sequence": call.sequence, "attempt": call.attempt}
            # A TypedDict with an extra key, as in `_meta`.
            meta = cast("RequestParamsMeta", {**meta, ATTEMPT_META: attempt, **_key_meta(call.key)})
        progress = _Progress(progress_listener())
        answer = await self._ask(_tool_call(tool, call.arguments, meta, progress), deadline)
        if check is not None and isinstance(answer, CallToolResult) and not answer.is_error:
            answer = answer if check.accepts(answer.structured_content) else answers.OutputSchemaError()
        if isinstance(answer, CallToolResult):
            report_parts(call.decision_id, call.sequence, answer.content)
        result = answers.from_answer(answer, trusted=self._trusted, change=call.mutating, begun=progress.reported)
        return self._with_duration(result, started)

    async def settle(self, call: SentCall, *, deadline: float | None = None, tool: str | None = None) -> ToolResult:
        """Return the outcome of an operation without running it; see `ToolServer`. Unknown if the tool has no ledger."""
        started = self._clock.monotonic()
        tool = tool or call.tool_name
        opened = await self._open(self._limit(deadline), back_off=SETTLEMENT_BACK_OFF_SECONDS)
        if opened is None or not self.traits(tool).ledger:
            return self._with_duration(answers.OUTCOME_UNKNOWN, started)
        meta = self._meta(call.user_id, call.operation_key, "settle")
        answer = await self._ask(_tool_call(tool, call.arguments, meta), deadline)
        return self._with_duration(answers.from_settlement(answer), started)

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        """Describe the target of a call, read-only; see `ToolServer`."""
        started = self._clock.monotonic()
        if await self._open(self._limit(deadline)) is None:
            return self._with_duration(answers.UNAVAILABLE, started)
        uri = self._preview_uri(tool_name, parameters)
        if uri is None:
            return self._with_duration(answers.NO_PREVIEW, started)
        meta = self._meta(user_id, None, "run")
        answer = await self._ask(lambda session: session.read_resource(uri, meta=meta, allow_input_required=True), deadline)
        return self._with_duration(answers.from_preview(answer), started)

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Return a resource of the server. Raises `MCPError` with the reason in one sentence."""
        answer = await self._ask(lambda session: session.read_resource(uri, allow_input_required=True), None)
        return passed_on(self._name, answer, ReadResourceResult)

    async def prompts(self) -> list[Prompt]:
        """Return the prompts of the server; none if it has none or does not answer in time."""
        answer = await self._ask(all_prompts, None)
        return answer if isinstance(answer, list) else []

    async def prompt(self, name: str, arguments: dict[str, str]) -> GetPromptResult:
        """Return a prompt of the server. Raises `MCPError` with the reason in one sentence."""
        answer = await self._ask(lambda session: session.get_prompt(name, arguments, allow_input_required=True), None)
        return passed_on(self._name, answer, GetPromptResult)

    async def _ask(self, request: Callable[[ClientSession], Awaitable[T]], deadline: float | None) -> T | BaseException | None:
        """Return the answer to `request`, its exception, or None after a timeout."""
        limit = self._limit(deadline)
        started = self._clock.monotonic()
        opened = await self._open(limit)
        session = self._session
        time_left = limit - (self._clock.monotonic() - started)
        if opened is None or session is None:
            return answers.NotConnectedError()
        if time_left <= 0:
            return answers.NoTimeError()
        session.received = 0
        self.in_flight += 1

        async def permitted() -> T:
            # The server may have been connected to for longer than a permit lasts.
            await require_permit()
            return await request(opened)

        try:
            with session.requesting():
                answer = await attempt(permitted(), time_left)
        finally:
            self.in_flight -= 1
        if isinstance(answer, (StoppedError, RecordUnavailableError)):
            raise answer
        if answer is not None and not isinstance(answer, BaseException):
            self._breaker.record_success()
        # Any other error is the server's own, with which it has answered: the connection is as good as before.
        if isinstance(answer, MCPError) and (answer.data is NO_ANSWER or (answer.code == CONNECTION_CLOSED and session.closed)):
            if answer.code == CONNECTION_CLOSED:
                session.retire()
            return answers.NoAnswerError(lost=answer.code == CONNECTION_CLOSED)
        return answer

    async def _open(self, seconds: float, *, back_off: float = MAX_BACK_OFF_SECONDS) -> ClientSession | None:
        """Return the session of this loop, opened if necessary; None if that fails or takes longer than `seconds`.

        After a failure it is opened again when its back-off has ended, of at most `back_off` seconds.
        """
        started = self._clock.monotonic()
        if self._identity is not None and not await self._identify(self._identity, seconds):
            return None
        seconds = max(0.0, seconds - (self._clock.monotonic() - started))
        session = self._session
        if session is not None and (session.dead or session.loop is not asyncio.get_running_loop()):
            self._failure = session.explanation or self._failure
            session.retire()
            session = self._session = None
        if session is None:
            if self._breaker.open_for(back_off):
                return None
            session = self._session = Session(self._server, self._start_timeout, self._name, self._breaker.record_failure)
        opened = await session.wait_until_open(seconds)
        if opened is not None and session.tools is not self._listed_tools:
            self.left_out = session.left_out
            self._use_tools(session.tools)
        return opened

    def use_pins(self, difference: Callable[[Tool], str | None] | None) -> None:
        """Refuse the tools that differ by this function from now on."""
        self._difference = difference or (lambda _: None)
        if self._listed_tools is not None:
            self._use_tools(self._listed_tools)

    def _use_tools(self, listed: list[Tool]) -> None:
        """Use the tools that the server lists, without those that differ from their pinned definitions."""
        self._listed_tools = listed
        differences = {tool.name: self._difference(tool) for tool in listed}
        self.refused = {name: why for name, why in differences.items() if why is not None}
        self._tools = {tool.name: tool for tool in listed if tool.name not in self.refused}
        self._output_schemas = {}
        self._declarations = [
            ToolDeclaration(name=tool.name, description=tool.description or "", parameters=tool.input_schema)
            for tool in self._tools.values()
        ]
        for name, why in self.refused.items():
            logger.warning("the tool %r of the MCP server '%s' is refused: %s", name, self._name, why)

    async def _identify(self, identity: Identity, seconds: float) -> bool:
        """Read the headers of the next request; False if there are none."""
        headers = await attempt(identity(), max(seconds, READY_SECONDS))
        if headers is None or isinstance(headers, BaseException) or invalid_header(headers) is not None:
            self._failure = "its headers could not be read"
            logger.warning("the headers for the MCP server '%s' could not be read", self._name)
            return False
        self._headers.update(headers)
        return True

    def _preview_uri(self, tool_name: str, parameters: dict[str, Any]) -> str | None:
        """Return the tool's URI template with the arguments filled in, or None if the template or an argument is missing."""
        tool = self._tools.get(tool_name)
        template = (tool.meta or {}).get(PREVIEW_META) if tool is not None else None
        if not isinstance(template, str):
            return None
        values = {name: parameters.get(name) for name in _VARIABLE.findall(template)}
        if not all(isinstance(value, str | int) for value in values.values()):
            return None
        return _VARIABLE.sub(lambda found: quote(str(values[found[1]]), safe=""), template)

    def _result_check(self, tool_name: str) -> ResultCheck | None:
        """Return the check of a tool's structured content; None if there is no output schema that can be used."""
        tool = self._tools.get(tool_name)
        if tool is None or tool.output_schema is None:
            return None
        # Kept, because a schema can be long and is asked for at every call.
        if tool_name not in self._output_schemas:
            self._output_schemas[tool_name] = canonical_json(tool.output_schema)
            try:
                _compiled_check(self._output_schemas[tool_name])
            except SchemaRefusedError as exc:
                text = "the results of the tool %r of the MCP server '%s' are not checked: its outputSchema %s"
                logger.warning(text, tool_name, self._name, exc)
                self._output_schemas[tool_name] = ""
        schema = self._output_schemas[tool_name]
        return _compiled_check(schema) if schema else None

    def _meta(self, user_id: str, operation_key: str | None, mode: str) -> RequestParamsMeta:
        """Return the user and the operation key of a call; nothing for a server that is not trusted."""
        meta: dict[str, Any] = {}
        if self._trusted:
            meta[USER_META] = user_id
            if operation_key is not None:
                meta[OPERATION_META] = {"key": operation_key, "mode": mode}
        # RequestParamsMeta is a TypedDict that permits extra keys, which the type checker cannot express yet.
        return cast("RequestParamsMeta", meta)

    def _limit(self, deadline: float | None) -> float:
        return self._timeout if deadline is None else min(self._timeout, max(0.0, deadline))

    def _with_duration(self, result: ToolResult, started: float) -> ToolResult:
        return result.model_copy(update={"duration_ms": max(0, round((self._clock.monotonic() - started) * 1000))})


def _key_meta(key: SentKey | None) -> dict[str, Any]:
    """Return the fields of `_meta` for the operation key of a call; the transport makes a header of one of them."""
    if key is None:
        return {}
    headers = key.at(KeyPlace.HEADER)
    return {**key.at(KeyPlace.META), **({HEADERS_META: headers} if headers else {})}


def _data_schema(tool: types.Tool) -> dict[str, Any] | None:
    """Return the schema of the data that a tool returns: of an envelope, that of its `data`. None for a declared write."""
    schema = tool.output_schema
    properties = (schema or {}).get("properties")
    if schema is None or (tool.annotations is not None and tool.annotations.read_only_hint is False):
        return None
    if not isinstance(properties, dict) or properties.keys() != answers.ENVELOPE:
        return schema
    return {**{key: schema[key] for key in ("$defs", "definitions") if key in schema}, "allOf": [properties["data"]]}


def _names(value: Any) -> tuple[str, ...] | None:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else None


def _tool_call(
    tool_name: str, parameters: dict[str, Any], meta: RequestParamsMeta, progress: _Progress | None = None
) -> Callable[[ClientSession], Awaitable[CallToolResult | InputRequiredResult]]:
    # `Client.call_tool` could send the call twice, and `ClientSession.call_tool` validates the result against the server's
    # output schema, whose patterns could block the event loop. So the request is sent directly.
    call = types.CallToolRequest(params=types.CallToolRequestParams(name=tool_name, arguments=parameters, _meta=meta))
    callback = None if progress is None else progress.callback
    return lambda session: session.send_request(call, _ANSWER, progress_callback=callback)


class _Progress:
    """The progress of one call. Without a listener the server is not asked for it."""

    def __init__(self, listener: ProgressListener | None) -> None:
        self.reported = False
        self._listener = listener

    @property
    def callback(self) -> ProgressFnT | None:
        return None if self._listener is None else self._report

    # The session's own task calls it, which does not have the context of the call.
    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        assert self._listener is not None
        self.reported = True
        self._listener(ToolProgress(progress, total, message))


# Cached, because sessions are opened again with the same tools, and a check takes milliseconds to compile.
@lru_cache(maxsize=256)
def _compiled_check(schema: str) -> ResultCheck:
    return ResultCheck(schema)

"""`ToolServer` over MCP: a real client of one server, wherever that runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote

from mcp import ClientSession, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    RequestParamsMeta,
    Tool,
)
from pydantic import TypeAdapter

from graph_agent.clock import SystemClock
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.ports import Clock
from graph_agent.tools import answers
from graph_agent.tools.session import Session, attempt

T = TypeVar("T")

USER_META = "graph_agent/user"
OPERATION_META = "graph_agent/operation"
LEDGER_META = "graph_agent/ledger"
PREVIEW_META = "graph_agent/preview"

DEFAULT_TIMEOUT_SECONDS = 10.0
READY_SECONDS = 2.0

_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
_VARIABLE = re.compile(r"\{(\w+)\}")


class McpToolExecutor:
    """Calls the tools of one MCP server: an `MCPServer` in this process, a command to start, or a URL.

    One session serves all calls, also concurrent ones; it is opened by `start` or the first call, and opened anew after it
    died. It belongs to the event loop it was opened in; used from another loop, the executor opens another one there. A call
    is sent at most once. `timeout` is in seconds and bounds every call, connecting included, that names no deadline itself.
    """

    def __init__(
        self,
        server: MCPServer[Any] | StdioServerParameters | str,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._server = server
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._session: Session | None = None
        self._listed: list[Tool] | None = None
        self._tools: dict[str, Tool] = {}

    async def start(self) -> bool:
        """Open the session; False if the server cannot be reached now. Calls try again by themselves."""
        return await self._open(self._timeout) is not None

    async def ready(self) -> bool:
        """Whether the server answers now: it is asked, over a new session if there is none. Takes two seconds at most."""
        answer = await self._ask(lambda session: session.list_tools(), min(self._timeout, READY_SECONDS))
        return answer is not None and not isinstance(answer, BaseException)

    async def aclose(self) -> None:
        """Leave the session. The executor can be used again: it would open another one."""
        session, self._session = self._session, None
        if session is None:
            return
        if session.loop is asyncio.get_running_loop():
            await session.leave()
        else:
            session.abandon()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.aclose()

    def get_available_tools(self) -> list[str]:
        """The names the server serves, in its order; empty until it has answered once."""
        return list(self._tools)

    def declarations(self) -> list[ToolDeclaration]:
        """What the server says of its tools, schemas as they came; empty until it has answered once."""
        return [
            ToolDeclaration(name=tool.name, description=tool.description or "", parameters=tool.input_schema)
            for tool in self._tools.values()
        ]

    def traits(self, tool_name: str) -> ToolTraits:
        """What the server says of one tool; of a tool it does not serve, what is assumed of a stranger."""
        tool = self._tools.get(tool_name)
        if tool is None:
            return ToolTraits()
        meta = tool.meta or {}
        return ToolTraits(
            title=tool.title or (tool.annotations.title if tool.annotations else None),
            read_only=bool(tool.annotations and tool.annotations.read_only_hint),
            ledger=meta.get(LEDGER_META) is True,
            preview=isinstance(meta.get(PREVIEW_META), str),
        )

    async def execute(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str | None = None,
        deadline: float | None = None,
    ) -> ToolResult:
        """Run one tool for `user_id`, sent at most once; see `ToolExecutor`."""
        started = self._clock.monotonic()
        answer = await self._ask(_tool_call(tool_name, parameters, _meta(user_id, operation_key, "run")), deadline)
        return self._timed(answers.from_answer(answer), started)

    async def settle(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str,
        deadline: float | None = None,
    ) -> ToolResult:
        """What became of an operation, without ever running it; see `ToolServer`. Unknown where no ledger is kept."""
        started = self._clock.monotonic()
        if await self._open(self._limit(deadline)) is None or not self.traits(tool_name).ledger:
            return self._timed(answers.NOT_LEARNED, started)
        answer = await self._ask(_tool_call(tool_name, parameters, _meta(user_id, operation_key, "settle")), deadline)
        return self._timed(answers.from_settlement(answer), started)

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        """What a call would act on, read-only; see `ToolServer`."""
        started = self._clock.monotonic()
        if await self._open(self._limit(deadline)) is None:
            return self._timed(answers.UNREACHABLE, started)
        uri = self._preview_uri(tool_name, parameters)
        if uri is None:
            return self._timed(answers.NO_PREVIEW, started)
        meta = _meta(user_id, None, "run")
        answer = await self._ask(lambda session: session.read_resource(uri, meta=meta, allow_input_required=True), deadline)
        return self._timed(answers.from_preview(answer), started)

    async def _ask(self, request: Callable[[ClientSession], Awaitable[T]], deadline: float | None) -> T | BaseException | None:
        """The answer to `request`, what it raised, or None when time was up."""
        limit = self._limit(deadline)
        started = self._clock.monotonic()
        session = await self._open(limit)
        left = limit - (self._clock.monotonic() - started)
        if session is None or self._session is None or left <= 0:
            return answers.NotSentError()
        self._session.news = 0
        answer = await attempt(request(session), left)
        if isinstance(answer, BaseException) and answers.ends_session(answer) and self._session is not None:
            self._session.abandon()
        return answer

    async def _open(self, seconds: float) -> ClientSession | None:
        """The open session of this loop, opened if need be; None if that fails or takes longer than `seconds`."""
        session = self._session
        if session is None or session.dead or session.loop is not asyncio.get_running_loop():
            if session is not None:
                session.abandon()
            session = self._session = Session(self._server, self._timeout)
        opened = await session.ready(seconds)
        if opened is not None and session.tools is not self._listed:
            self._listed = session.tools
            self._tools = {tool.name: tool for tool in session.tools}
        return opened

    def _preview_uri(self, tool_name: str, parameters: dict[str, Any]) -> str | None:
        """The tool's URI template filled in; None without a template, or where an argument it needs is missing."""
        tool = self._tools.get(tool_name)
        template = (tool.meta or {}).get(PREVIEW_META) if tool is not None else None
        if not isinstance(template, str):
            return None
        values = {name: parameters.get(name) for name in _VARIABLE.findall(template)}
        if not all(isinstance(value, str | int) for value in values.values()):
            return None
        return _VARIABLE.sub(lambda found: quote(str(values[found[1]]), safe=""), template)

    def _limit(self, deadline: float | None) -> float:
        return self._timeout if deadline is None else max(0.0, deadline)

    def _timed(self, result: ToolResult, started: float) -> ToolResult:
        return result.model_copy(update={"duration_ms": max(0, round((self._clock.monotonic() - started) * 1000))})


def _meta(user_id: str, operation_key: str | None, mode: str) -> RequestParamsMeta:
    meta: dict[str, Any] = {USER_META: user_id}
    if operation_key is not None:
        meta[OPERATION_META] = {"key": operation_key, "mode": mode}
    # An open map, which the type checker does not know yet.
    return cast("RequestParamsMeta", meta)


def _tool_call(
    tool_name: str, parameters: dict[str, Any], meta: RequestParamsMeta
) -> Callable[[ClientSession], Awaitable[CallToolResult | InputRequiredResult]]:
    # Neither the client's call, which would send again by itself, nor the session's, which would match the result against
    # the server's own output schema, patterns and all, in this event loop.
    call = CallToolRequest(params=CallToolRequestParams(name=tool_name, arguments=parameters, _meta=meta))
    return lambda session: session.send_request(call, _ANSWER)

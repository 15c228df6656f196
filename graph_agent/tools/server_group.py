"""Several MCP servers as one `ToolServer`.

A tool keeps the name that its server gives it, unless another server has a tool of that name, or the file of servers asks for
prefixes: then it is called `server.tool`. Every tool can be granted under that name, so that a constitution need not depend on
which other servers there are.

A name belongs to one server. A name without a server that the constitution grants is given to a server only if no other one can
serve it: the tool is pinned, or all servers that do not use prefixes have listed their tools. Once given, it never changes its
server.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from mcp import MCPError, StdioServerParameters
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, GetPromptResult, Prompt, ReadResourceResult, ToolAnnotations

from graph_agent.clock import SystemClock
from graph_agent.models.config import DEFAULT_CALL_SECONDS
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.ports import Clock, SentCall
from graph_agent.tools import answers
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.identity import Identity, SignIns, UserHeaders, signed_in, token_source
from graph_agent.tools.parts import within_limit
from graph_agent.tools.pins import Pins
from graph_agent.tools.progress import report_start
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.session import NO_COMMAND
from graph_agent.tools.transport import HttpServer
from graph_agent.tools.user_tokens import EXCHANGE_SECONDS, ExchangedToken, UserTokenError, UserTokens

REPORT_EVERY_SECONDS = 3.0
"""The time between two reports on servers that are starting."""
MAX_USER_SESSIONS = 100
"""The number of sessions with the headers or the token of one user. Beyond it the one that was used longest ago is closed."""


class _Route(NamedTuple):
    """A tool by its server and the name that the server gives it."""

    server: str
    tool: str


class _UserSession(NamedTuple):
    """A session with the headers of one user, or with a token that was exchanged for one user."""

    server: str
    user_id: str
    token: ExchangedToken | None = None

    def expired(self, now: float) -> bool:
        """True if its token is not used any more."""
        return self.token is not None and now >= self.token.renew_at


@dataclass(frozen=True)
class Claims:
    """The words and hints of a server about one of its tools. Unless it is trusted, they are only shown."""

    server: ServerConfig
    tool: str
    title: str | None
    description: str
    hints: Mapping[str, bool]
    """The hints of MCP, such as `readOnlyHint`."""

    @property
    def reads(self) -> bool:
        return self.hints.get("readOnlyHint", False)


class McpServerGroup:
    """Calls the tools of several MCP servers. Each has its own session, deadline and circuit breaker.

    The tools of a server that does not answer are unavailable; the others continue.
    """

    def __init__(
        self,
        servers: Sequence[ServerConfig],
        *,
        granted: Collection[str] = (),
        pins: Pins | None = None,
        sign_ins: SignIns | None = None,
        user_headers: UserHeaders | None = None,
        clock: Clock | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> None:
        """`granted` are the names in the constitution: a tool that is granted as `server.tool` gets that name.

        With `pins`, a tool that differs from its pinned definition is refused. `sign_ins` has the tokens for servers over HTTP.
        With `user_headers`, each user has a session of their own with every such server. `missing` are servers of the rules
        that are not among the `servers`, and why.
        """
        self.missing = missing or {}
        self._sign_ins = sign_ins
        self._user_headers = user_headers
        self._clock = clock or SystemClock()
        self._user_executors: OrderedDict[_UserSession, McpToolExecutor] = OrderedDict()
        self._pins = pins or Pins({})
        self._servers = {server.name: server for server in servers}
        self._user_tokens = {
            server.name: UserTokens(server.name, server.user_token, self._clock, allow_http=server.server.allow_http)
            for server in servers
            if server.user_token is not None and isinstance(server.server, HttpServer)
        }
        self._granted = frozenset(granted)
        self.executors: Mapping[str, McpToolExecutor] = {
            server.name: self._executor(server, pins, self._credentials(server)) for server in servers
        }
        self.starting: str | None = None
        """The servers that are taking long to start, and for how long: `starting files …, 12 s`."""
        self._routes: dict[str, _Route] = {}
        self._owners: dict[str, str] = {}
        """The server of each name without a server that the constitution grants, since the name was first certain."""
        self.uncertain: dict[str, str] = {}
        """The granted names that may not be called, because it is not certain whose they are, and the reason."""
        self._declarations: list[ToolDeclaration] = []
        self._listed: list[list[ToolDeclaration]] = []

    def _executor(self, server: ServerConfig, pins: Pins | None, identity: Identity | None) -> McpToolExecutor:
        return McpToolExecutor(
            server.server,
            timeout=server.timeout,
            start_timeout=server.start_seconds,
            clock=self._clock,
            name=server.name,
            trusted=server.trusted,
            difference=None if pins is None else partial(pins.difference, server.name),
            identity=identity,
        )

    def _credentials(self, server: ServerConfig) -> Identity | None:
        if not isinstance(server.server, HttpServer):
            return None
        if server.credentials is not None:
            return token_source(server.credentials, self._clock, allow_http=server.server.allow_http)
        return None if self._sign_ins is None else signed_in(server.server, self._sign_ins, self._clock)

    def use_rules(self, granted: Collection[str], pins: Pins | None) -> None:
        """Name and refuse the tools by another constitution and other pins from now on."""
        self._granted, self._pins = frozenset(granted), pins or Pins({})
        self._owners.clear()
        self._listed = []
        for name, executor in self.executors.items():
            executor.use_pins(None if pins is None else partial(pins.difference, name))

    async def _for_user(self, route: _Route, user_id: str, seconds: float | None = None) -> McpToolExecutor:
        """Return the executor that calls a tool for one user: that of the server, or one with the user's own headers or token.

        Raises `UserTokenError` if the server needs a token of the user and there is none.
        """
        server = self._servers[route.server]
        if not isinstance(server.server, HttpServer):
            return self.executors[route.server]
        if (tokens := self._user_tokens.get(server.name)) is not None:
            limit = EXCHANGE_SECONDS if seconds is None else seconds
            token = await tokens.token(user_id, seconds=min(limit, server.timeout))
            key = _UserSession(server.name, user_id, token)
            if key not in self._user_executors:
                await self._close_expired()
                # A session of its own for each token, so that no call is sent with another one.
                headers = {**server.server.headers, "Authorization": f"Bearer {token.token}"}
                own = replace(server, server=replace(server.server, headers=headers))
                self._user_executors[key] = self._executor(own, None, None)
        elif self._user_headers is not None:
            key = _UserSession(server.name, user_id)
            if key not in self._user_executors:
                self._user_executors[key] = self._executor(server, None, partial(self._user_headers, user_id, server.name))
        else:
            return self.executors[route.server]
        self._user_executors.move_to_end(key)
        executor = self._user_executors[key]
        unused = (
            candidate for candidate, other in self._user_executors.items() if other is not executor and not other.in_flight
        )
        if len(self._user_executors) > MAX_USER_SESSIONS and (oldest := next(unused, None)) is not None:
            await self._user_executors.pop(oldest).aclose()
        return executor

    async def _close_expired(self) -> None:
        """Close the sessions whose token has expired."""
        now = self._clock.monotonic()
        expired = [key for key, one in self._user_executors.items() if key.expired(now) and not one.in_flight]
        await asyncio.gather(*(self._user_executors.pop(key).aclose() for key in expired))

    def shared_identities(self) -> list[str]:
        """Return the servers that cannot tell the users apart."""
        return [
            name
            for name, server in self._servers.items()
            if not server.trusted
            and name not in self._user_tokens
            and (self._user_headers is None or not isinstance(server.server, HttpServer))
        ]

    async def start(self) -> bool:
        """Connect to every server that is not connected; False if one cannot be reached now, or has a tool that is refused."""
        connected = await self._started()
        self._refresh()
        return (
            not self.missing
            and all(connected)
            and not self.uncertain
            and not any(executor.refused for executor in self.executors.values())
        )

    async def _started(self) -> list[bool]:
        """Return for each server whether it is connected. One that takes long is reported, so that the wait is explained."""
        starts = {name: asyncio.create_task(executor.start()) for name, executor in self.executors.items()}
        begun = asyncio.get_running_loop().time()
        try:
            while waiting := [name for name, start in starts.items() if not start.done()]:
                await asyncio.wait(starts.values(), timeout=REPORT_EVERY_SECONDS)
                if waiting := [name for name in waiting if not starts[name].done()]:
                    self.starting = report_start(waiting, asyncio.get_running_loop().time() - begun)
        finally:
            self.starting = None
            for start in starts.values():
                start.cancel()
        return [start.result() for start in starts.values()]

    @property
    def call_seconds(self) -> float:
        """The time limit of one call of the server that may take longest; each executor keeps its own."""
        return max((server.timeout for server in self._servers.values()), default=DEFAULT_CALL_SECONDS)

    @property
    def functions(self) -> list[str]:
        """The names of the servers whose tools are functions of a file."""
        return [name for name, server in self._servers.items() if server.functions]

    def failure(self, server: str) -> str:
        """Return the reason for which a server does not answer, without secret values."""
        text = self.executors[server].failure or "it does not answer in time"
        if text == NO_COMMAND and isinstance(started := self._servers[server].server, StdioServerParameters):
            text += f": {started.command}"
        for secret in self._servers[server].secrets:
            text = text.replace(secret, "***")
        return text

    async def aclose(self) -> None:
        """Close every session. A later call opens another one."""
        await asyncio.gather(*(executor.aclose() for executor in (*self.executors.values(), *self._user_executors.values())))

    def get_available_tools(self) -> list[str]:
        """Return the names of all tools, by server in the order of the file; without those of servers never reached."""
        return [declaration.name for declaration in self.declarations()]

    def declarations(self) -> list[ToolDeclaration]:
        """Return the declarations of all tools under the names by which they are called here."""
        self._refresh()
        return self._declarations

    def traits(self, tool_name: str) -> ToolTraits:
        """Return the traits of one tool; for an unknown one, the defaults."""
        route = self._route(tool_name)
        return ToolTraits() if route is None else self.executors[route.server].traits(route.tool)

    def server_of(self, tool_name: str) -> str:
        """Return the name of the server of a tool; empty for an unknown one."""
        route = self._route(tool_name)
        return "" if route is None else route.server

    def server_names(self) -> list[str]:
        """Return the names of all servers, whether they can be reached or not."""
        return list(self._servers)

    def claims(self, tool_name: str) -> Claims | None:
        """Return what the server of a tool says about it; None for an unknown tool."""
        route = self._route(tool_name)
        tool = None if route is None else self.executors[route.server].tool(route.tool)
        if route is None or tool is None:
            return None
        annotations = tool.annotations or ToolAnnotations()
        hints = {name: value for name, value in annotations.model_dump(by_alias=True).items() if isinstance(value, bool)}
        title = tool.title or annotations.title
        return Claims(self._servers[route.server], tool.name, title, tool.description or "", hints)

    def left_out(self) -> dict[str, str]:
        """Return the tools whose definition cannot be used, by every name under which they could be granted, and why."""
        return {
            name: why
            for server, executor in self.executors.items()
            for tool, why in executor.left_out.items()
            for name in ([] if self._servers[server].prefixed else [tool]) + [f"{server}.{tool}"]
        }

    def pins(self) -> Pins:
        """Return pins of the tools that the servers list now."""
        return Pins.of({name: executor.listed for name, executor in self.executors.items()})

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        """Run a permitted call on the server of its tool; see `ToolServer`."""
        started = self._clock.monotonic()
        try:
            executor, tool = await self._reach(call.tool_name, call.user_id, deadline)
        except UserTokenError as exc:
            return answers.no_user_token(exc)
        if executor is None:
            return answers.UNAVAILABLE
        left = None if deadline is None else deadline - (self._clock.monotonic() - started)
        return await executor.execute(call, deadline=left, tool=tool)

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        """Return the outcome of an operation; see `ToolServer`."""
        try:
            executor, tool = await self._reach(call.tool_name, call.user_id, deadline)
        except UserTokenError:
            return answers.OUTCOME_UNKNOWN
        return answers.OUTCOME_UNKNOWN if executor is None else await executor.settle(call, deadline=deadline, tool=tool)

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        """Describe the target of a call; see `ToolServer`."""
        try:
            executor, tool = await self._reach(tool_name, user_id, deadline)
        except UserTokenError as exc:
            return answers.no_user_token(exc)
        return answers.UNAVAILABLE if executor is None else await executor.preview(tool, parameters, user_id, deadline=deadline)

    async def read_resource(self, tool_name: str, uri: str, user_id: str) -> ReadResourceResult:
        """Return a resource of the server of a tool, for a user. Raises `MCPError` with the reason in one sentence."""
        try:
            executor, _ = await self._reach(tool_name, user_id)
        except UserTokenError as exc:
            raise MCPError(INTERNAL_ERROR, str(exc)) from None
        if executor is None:
            raise MCPError(INTERNAL_ERROR, "The server of this resource cannot be reached now.")
        return await executor.read_resource(uri)

    async def prompts(self, names: Collection[str], user_id: str) -> list[Prompt]:
        """Return those prompts of `names`, each `server.prompt`, that the servers have now, under these names."""
        found = []
        for server in dict.fromkeys(name.partition(".")[0] for name in names):
            with suppress(UserTokenError):  # of such a server only a signed-in user sees the prompts
                if server not in self._servers:
                    continue
                executor = await self._for_user(_Route(server, ""), user_id)
                named = [(f"{server}.{prompt.name}", prompt) for prompt in await executor.prompts()]
                found += [prompt.model_copy(update={"name": name}) for name, prompt in named if name in names]
        return list(within_limit(found))

    async def prompt(self, name: str, arguments: dict[str, str], user_id: str) -> GetPromptResult:
        """Return the prompt `server.prompt`. Raises `MCPError` with the reason in one sentence."""
        server, _, prompt = name.partition(".")
        if server not in self._servers:
            raise MCPError(INVALID_PARAMS, f"There is no MCP server '{server}'.")
        try:
            executor = await self._for_user(_Route(server, ""), user_id)
        except UserTokenError as exc:
            raise MCPError(INTERNAL_ERROR, str(exc)) from None
        return await executor.prompt(prompt, arguments)

    async def _reach(self, tool_name: str, user_id: str, seconds: float | None = None) -> tuple[McpToolExecutor | None, str]:
        """Return the executor of a tool for a user, None if no server serves the tool, and the name of the tool there.

        The servers are connected first if none of them is known to serve it. Raises `UserTokenError`.
        """
        if self._route(tool_name) is None:
            await self.start()
        route = self._route(tool_name)
        return (None, "") if route is None else (await self._for_user(route, user_id, seconds), route.tool)

    def _route(self, tool_name: str) -> _Route | None:
        self._refresh()
        return self._routes.get(tool_name)

    def _refresh(self) -> None:
        """Choose the names of all tools again if a server has listed its tools since the last time."""
        listed = [executor.declarations() for executor in self.executors.values()]
        if all(now is before for now, before in zip(listed, self._listed, strict=False)) and self._listed:
            return
        self._listed = listed
        # The pinned names count too, so that a server that is down does not change the names of the others.
        holders: defaultdict[str, list[str]] = defaultdict(list)
        unprefixed = [pair for pair in zip(self.executors, listed, strict=True) if not self._servers[pair[0]].prefixed]
        for server, declarations in unprefixed:
            for name in {*(declaration.name for declaration in declarations), *self._pins.names(server)}:
                holders[name].append(server)
        plain = [name for name in holders if name in self._granted and not self._names_server(name)]
        self.uncertain = {name: why for name in plain if (why := self._uncertainty(name, holders[name]))}
        routes: dict[str, _Route] = {}
        named: list[ToolDeclaration] = []
        for server, declarations in zip(self.executors, listed, strict=True):
            for declaration in declarations:
                full = f"{server}.{declaration.name}"
                ambiguous = len(holders[declaration.name]) > 1 or declaration.name in self.uncertain
                prefixed = self._servers[server].prefixed or ambiguous or full in self._granted
                name = full if prefixed or self._names_server(declaration.name) else declaration.name
                routes[name] = _Route(server, declaration.name)
                named.append(declaration.replace(name=name))
        self._routes, self._declarations = routes, named

    def _names_server(self, name: str) -> bool:
        """Return True if `name` reads like `server.tool`."""
        server, dot, _ = name.partition(".")
        return bool(dot) and server in self._servers

    def _uncertainty(self, name: str, holders: list[str]) -> str:
        """Return why it is not certain to which server the granted `name` belongs; empty if it is certain."""
        first = holders[0]
        unheard = [server for server, executor in self.executors.items() if not (executor.answered or server in holders)]
        silent = [server for server in unheard if not self._servers[server].prefixed]
        if len(holders) > 1:
            why = f"the servers {' and '.join(map(repr, holders))} have a tool of this name"
        elif (owner := self._owners.get(name, first)) != first:
            why = f"it belongs to the server '{owner}', and now '{first}' serves it"
        elif silent and name not in self._owners and name not in self._pins.names(first):
            why = f"the server '{silent[0]}' has not answered yet and may serve it too"
        else:
            self._owners[name] = first
            return ""
        return f"{why}: write '{first}.{name}' in the constitution, or pin the tools"

"""Several MCP servers as one `ToolServer`.

A tool keeps the name that its server gives it, unless two servers serve one of that name, or the file of servers asks for
prefixes: then it is called `server.tool`. Under that name every tool can be granted, so that a constitution need not depend on
which other servers there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.ports import Clock
from graph_agent.tools import answers
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.server_file import ServerConfig


class _Route(NamedTuple):
    """A tool by its server and the name that the server gives it."""

    executor: McpToolExecutor
    tool: str


class McpServerGroup:
    """Calls the tools of several MCP servers. Each has its own session, deadline and circuit breaker.

    The tools of a server that does not answer are unavailable; the others continue.
    """

    def __init__(self, servers: Sequence[ServerConfig], *, granted: Collection[str] = (), clock: Clock | None = None) -> None:
        """`granted` are the names in the constitution: a tool that is granted as `server.tool` is called so."""
        self._servers = {server.name: server for server in servers}
        self._granted = frozenset(granted)
        self.executors: Mapping[str, McpToolExecutor] = {
            server.name: McpToolExecutor(server.server, timeout=server.timeout, clock=clock, name=server.name)
            for server in servers
        }
        self._routes: dict[str, _Route] = {}
        self._declarations: list[ToolDeclaration] = []
        self._listed: list[list[ToolDeclaration]] = []

    async def start(self) -> bool:
        """Connect to every server that is not connected; False if one of them cannot be reached now."""
        return all(await asyncio.gather(*(executor.start() for executor in self.executors.values())))

    def failure(self, server: str) -> str:
        """Return the reason for which a server does not answer, without secret values."""
        text = self.executors[server].failure or "it does not answer in time"
        for secret in self._servers[server].secrets:
            text = text.replace(secret, "***")
        return text

    async def aclose(self) -> None:
        """Close every session. A later call opens another one."""
        await asyncio.gather(*(executor.aclose() for executor in self.executors.values()))

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
        return ToolTraits() if route is None else route.executor.traits(route.tool)

    async def execute(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str | None = None,
        deadline: float | None = None,
    ) -> ToolResult:
        """Run one tool on its server; see `ToolExecutor`."""
        route = await self._reach(tool_name)
        if route is None:
            return answers.UNAVAILABLE
        return await route.executor.execute(route.tool, parameters, user_id, operation_key=operation_key, deadline=deadline)

    async def settle(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str,
        deadline: float | None = None,
    ) -> ToolResult:
        """Return the outcome of an operation; see `ToolServer`."""
        route = await self._reach(tool_name)
        if route is None:
            return answers.OUTCOME_UNKNOWN
        return await route.executor.settle(route.tool, parameters, user_id, operation_key=operation_key, deadline=deadline)

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        """Describe the target of a call; see `ToolServer`."""
        route = await self._reach(tool_name)
        if route is None:
            return answers.UNAVAILABLE
        return await route.executor.preview(route.tool, parameters, user_id, deadline=deadline)

    async def _reach(self, tool_name: str) -> _Route | None:
        """Return the route of a tool; the servers are connected first if none of them is known to serve it."""
        if self._route(tool_name) is None:
            await self.start()
        return self._route(tool_name)

    def _route(self, tool_name: str) -> _Route | None:
        self._refresh()
        return self._routes.get(tool_name)

    def _refresh(self) -> None:
        """Name the tools again if a server has listed its tools since."""
        listed = [executor.declarations() for executor in self.executors.values()]
        if all(now is before for now, before in zip(listed, self._listed, strict=False)) and self._listed:
            return
        self._listed = listed
        counts = Counter(declaration.name for declarations in listed for declaration in declarations)
        routes: dict[str, _Route] = {}
        named: list[ToolDeclaration] = []
        for (server, executor), declarations in zip(self.executors.items(), listed, strict=True):
            for declaration in declarations:
                full = f"{server}.{declaration.name}"
                config, prefix = self._servers[server], declaration.name.partition(".")[0]
                ambiguous = counts[declaration.name] > 1 or prefix in self._servers
                prefixed = config.prefixed or ambiguous or full in self._granted
                name = full if prefixed else declaration.name
                routes[name] = _Route(executor, declaration.name)
                named.append(declaration.replace(name=name))
        self._routes, self._declarations = routes, named

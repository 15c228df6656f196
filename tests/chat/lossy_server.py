"""An MCP server over HTTP behind a connection that loses the answers of one tool, delays its calls, or is cut."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

from mcp.server.mcpserver import MCPServer

from graph_agent.api.server import HttpServerConfig
from graph_agent.tools.transport import HttpServer
from tests.chat.asgi import lose, read_body
from tests.lost_answer import LOSSES, Fault
from tests.serving import ServerWithoutSignals


class _CutError(Exception):
    """The connection ends."""


class LossyServer:
    """Serves an MCP server; `faults` are what happens to the next calls of its tool `tool_name`."""

    def __init__(self, tool_name: str) -> None:
        self.tool_name = tool_name
        self.faults: deque[Fault] = deque()
        self.dice: Random | None = None
        """Chooses what happens to each call, half of which are lost."""
        self.delay: float | None = None
        """The longest delay, in seconds."""
        self.late = asyncio.Event()
        self.requested = asyncio.Event()
        """Set when a call was sent and will not be answered: after it, if it takes effect at once."""
        self.arriving: set[asyncio.Task[None]] = set()
        self.requests = 0
        """How many calls of the tool were sent."""
        self.lost = 0
        """How many of them the dice have chosen."""
        self._port = 0

    @property
    def address(self) -> HttpServer:
        return HttpServer(f"http://127.0.0.1:{self._port}/mcp")

    @asynccontextmanager
    async def serving(self, server: MCPServer[Any]) -> AsyncIterator[None]:
        listener = socket.create_server(("127.0.0.1", 0))
        self._port = listener.getsockname()[1]
        config = HttpServerConfig(self._app(server), log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
        http = ServerWithoutSignals(config)
        task = asyncio.create_task(http.serve(sockets=[listener]))
        try:
            yield
        finally:
            await self.arrive()
            http.should_exit = http.force_exit = True
            await task

    async def arrive(self) -> None:
        """Let the delayed requests arrive."""
        self.late.set()
        await asyncio.gather(*self.arriving)
        self.late.clear()

    def _app(self, server: MCPServer[Any]) -> Any:
        app = server.streamable_http_app(json_response=True, stateless_http=True)

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            body, again = await read_body(receive)
            fault = self._next_fault() if self._is_call(body) else Fault.NONE
            if fault is Fault.CUT_BEFORE:
                raise _CutError
            if fault is Fault.DELAYED:

                async def arrive_late() -> None:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.late.wait(), self.delay)
                    await app(scope, again, lose)

                task = asyncio.create_task(arrive_late())
                self.arriving.add(task)
                self.requested.set()
                while (await receive())["type"] != "http.disconnect":
                    pass
                return
            await app(scope, again, send if fault is Fault.NONE else lose)
            if fault is Fault.CUT_AFTER:
                raise _CutError
            if fault is Fault.DROPPED:
                self.requested.set()
                while (await receive())["type"] != "http.disconnect":
                    pass

        return serve

    def _next_fault(self) -> Fault:
        self.requests += 1
        if self.dice is not None and self.dice.random() < 0.5:
            self.lost += 1
            return self.dice.choice(LOSSES)
        return self.faults.popleft() if self.faults else Fault.NONE

    def _is_call(self, body: bytes) -> bool:
        with suppress(ValueError, LookupError, TypeError):
            return bool(json.loads(body)["params"]["name"] == self.tool_name)
        return False

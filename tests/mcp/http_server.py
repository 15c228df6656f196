"""An MCP server over HTTP that records the headers of its requests, beside an OAuth token endpoint."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse

from graph_agent.api.server import HttpServerConfig
from tests.serving import ServerWithoutSignals


@dataclass
class Recorded:
    """What the server has seen: the Authorization headers of its requests, and the requests for a token."""

    url: str = ""
    authorizations: list[str | None] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    @property
    def token_url(self) -> str:
        return self.url.replace("/mcp", "/token")


@asynccontextmanager
async def recording_server() -> AsyncIterator[Recorded]:
    """Serve on a free port of this process's loop."""
    recorded = Recorded()
    server: MCPServer[Any] = MCPServer("third-party", log_level="ERROR")

    @server.tool()
    async def whoami(context: Context) -> dict[str, Any]:
        request = context.request_context.request
        assert isinstance(request, Request)
        return {"authorization": request.headers.get("authorization")}

    @server.tool()
    async def act() -> dict[str, Any]:
        return {"done": True}

    app = server.streamable_http_app(json_response=True)

    async def route(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            authorization = request.headers.get("authorization")
            if scope["path"] == "/token":
                credentials = base64.b64decode((authorization or "").removeprefix("Basic ")).decode()
                recorded.tokens.append(f"{credentials} {(await request.body()).decode()}")
                number = len(recorded.tokens)
                return await JSONResponse({"access_token": f"token-{number}", "expires_in": 60})(scope, receive, send)
            if scope["path"] == "/redirect":
                return await RedirectResponse("http://169.254.169.254/mcp", 307)(scope, receive, send)
            recorded.authorizations.append(authorization)
        return await app(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = HttpServerConfig(route, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        running = ServerWithoutSignals(config)
        task = asyncio.create_task(running.serve(sockets=[listener]))
        recorded.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        try:
            yield recorded
        finally:
            running.should_exit = True
            await task

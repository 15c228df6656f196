"""An MCP server over HTTP that asks for a sign-in, and its authorization server with registration, PKCE and refresh tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from graph_agent.api.server import HttpServerConfig
from tests.serving import ServerWithoutSignals


@dataclass
class Protected:
    """The addresses, the access tokens that are valid now, and the forms that the token endpoint got."""

    url: str = ""
    valid: set[str] = field(default_factory=set)
    forms: list[dict[str, str]] = field(default_factory=list)
    lifetime: int = 3600
    codes: dict[str, str] = field(default_factory=dict)
    """The PKCE challenge of each code."""

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/mcp")

    async def authorize(self, request: Request) -> Response:
        query = request.query_params
        code = secrets.token_hex(8)
        self.codes[code] = query["code_challenge"]
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}")

    async def token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.forms.append(form)
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if self.codes.pop(form["code"], None) != base64.urlsafe_b64encode(digest).decode().rstrip("="):
                return JSONResponse({"error": "invalid_grant"}, 400)
        elif form["refresh_token"] != f"refresh-{len(self.forms) - 1}":
            return JSONResponse({"error": "invalid_grant"}, 400)
        number = len(self.forms)
        self.valid = {f"access-{number}"}
        answer = {"access_token": f"access-{number}", "token_type": "Bearer", "refresh_token": f"refresh-{number}"}
        return JSONResponse({**answer, "expires_in": self.lifetime})

    async def register(self, request: Request) -> Response:
        asked = await request.json()
        return JSONResponse({**asked, "client_id": "client-1", "token_endpoint_auth_method": "none"}, 201)

    async def resource_metadata(self, _: Request) -> Response:
        return JSONResponse({"resource": self.url, "authorization_servers": [self.origin]})

    async def metadata(self, _: Request) -> Response:
        endpoints = {"authorization": "authorize", "token": "token", "registration": "register"}
        addresses = {f"{name}_endpoint": f"{self.origin}/{path}" for name, path in endpoints.items()}
        supported = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
        return JSONResponse({"issuer": self.origin, **addresses, **supported})


@asynccontextmanager
async def protected_server() -> AsyncIterator[Protected]:
    """Serve on a free port of this process's loop."""
    protected = Protected()
    server: MCPServer[Any] = MCPServer("third-party", log_level="ERROR")

    @server.tool()
    async def act() -> dict[str, Any]:
        return {"done": True}

    app = server.streamable_http_app(json_response=True)
    routes = {
        "/authorize": protected.authorize,
        "/token": protected.token,
        "/register": protected.register,
        "/.well-known/oauth-protected-resource/mcp": protected.resource_metadata,
        "/.well-known/oauth-authorization-server": protected.metadata,
    }

    async def route(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        request = Request(scope, receive)
        if scope["path"] in routes:
            return await (await routes[scope["path"]](request))(scope, receive, send)
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in protected.valid:
            return await Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
        return await app(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = HttpServerConfig(route, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        running = ServerWithoutSignals(config)
        task = asyncio.create_task(running.serve(sockets=[listener]))
        protected.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        try:
            yield protected
        finally:
            running.should_exit = True
            await task

"""The sessions of streamable HTTP: how many a server keeps, and what the client of one that is gone gets."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from graph_agent.api.server import HttpServerConfig
from graph_agent.net.asgi import AsgiApp, Message, Receive, Send
from graph_agent.net.fair_table import FairTable
from graph_agent.net.mcp_http import local_app
from graph_agent.net.mcp_sessions import SESSIONS_OF_A_USER, SessionLimit
from tests.serving import ServerWithoutSignals

ACCEPT = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


def server() -> Server[Any]:
    async def list_tools(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[])

    return Server("tools", on_list_tools=list_tools)


class Named:
    """ASGI middleware that signs in whom the header x-user names."""

    def __init__(self, app: AsgiApp) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        named = dict(scope.get("headers", ())).get(b"x-user")
        if named is not None:
            name = named.decode()
            scope["user"] = AuthenticatedUser(AccessToken(token=name, client_id=name, subject=name, scopes=[]))
        await self.app(scope, receive, send)


@asynccontextmanager
async def served(app: AsgiApp) -> AsyncGenerator[httpx2.AsyncClient]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = ServerWithoutSignals(HttpServerConfig(app, lifespan="on", timeout_graceful_shutdown=1))
        task = asyncio.create_task(running.serve(sockets=[listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            async with httpx2.AsyncClient(base_url=url, headers=ACCEPT, timeout=60) as http:
                yield http
        finally:
            running.should_exit = True
            await task


async def opened(http: httpx2.AsyncClient, **headers: str) -> str:
    answer = await http.post("/mcp", json=INITIALIZE, headers=headers)
    assert answer.status_code == 200
    return str(answer.headers["mcp-session-id"])


async def status(http: httpx2.AsyncClient, session: str, **headers: str) -> int:
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    return (await http.post("/mcp", json=ping, headers={"mcp-session-id": session, **headers})).status_code


async def test_the_least_recently_used_session_makes_room_and_its_client_can_initialize_again() -> None:
    async with served(local_app(server())) as http:
        sessions = [await opened(http) for _ in range(SESSIONS_OF_A_USER)]
        assert await status(http, sessions[0]) == 200
        sessions += [await opened(http) for _ in range(3)]
        assert [await status(http, session) for session in sessions[:5]] == [200, 404, 404, 404, 200]
        assert await status(http, await opened(http)) == 200


async def test_a_user_with_many_sessions_closes_none_of_another_user() -> None:
    async with served(Named(SessionLimit(server().streamable_http_app(max_sessions=None), per_user=4, total=5))) as http:
        bobs = await opened(http, **{"x-user": "bob"})
        anns = [await opened(http, **{"x-user": "ann"}) for _ in range(20)]
        carols = await opened(http, **{"x-user": "carol"})
        assert await status(http, bobs, **{"x-user": "bob"}) == 200
        assert await status(http, carols, **{"x-user": "carol"}) == 200
        found = [await status(http, session, **{"x-user": "ann"}) for session in anns]
        assert found == [404] * 17 + [200] * 3
        # A session is only its owner's: another user cannot use it, and does not close it.
        assert await status(http, bobs, **{"x-user": "ann"}) == 404
        assert await status(http, bobs, **{"x-user": "bob"}) == 200


async def test_many_sessions_at_the_same_time_leave_as_many_as_are_allowed() -> None:
    app = server().streamable_http_app(max_sessions=None)
    async with served(Named(SessionLimit(app, per_user=3, total=3))) as http:
        sessions = await asyncio.gather(*(opened(http) for _ in range(40)))
        assert sorted([await status(http, session) for session in sessions])[:4] == [200, 200, 200, 404]


async def test_an_idle_session_ends_and_one_that_its_client_ends_leaves_its_place() -> None:
    async with served(local_app(server(), session_idle_timeout=0.2)) as http:
        idle = await opened(http)
        deadline = time.monotonic() + 30
        while await listening_status(http, idle) != 404:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.3)
    async with served(Named(SessionLimit(server().streamable_http_app(), per_user=2, total=2))) as http:
        first, second = await opened(http), await opened(http)
        assert (await http.delete("/mcp", headers={"mcp-session-id": second})).status_code == 200
        third = await opened(http)
        assert [await status(http, one) for one in (first, second, third)] == [200, 404, 200]


async def listening_status(http: httpx2.AsyncClient, session: str) -> int:
    """The status of a request that is refused at once, so that it does not keep its session."""
    return (await http.put("/mcp", headers={"mcp-session-id": session})).status_code


async def test_a_client_whose_session_was_closed_connects_again() -> None:
    app = SessionLimit(server().streamable_http_app(), per_user=1, total=1)
    async with served(app) as http:
        url = f"{http.base_url}/mcp".replace("//mcp", "/mcp")
        for _ in range(3):
            async with Client(streamable_http_client(url, http_client=http), mode="legacy") as client:
                assert (await client.list_tools()).tools == []
                await opened(http)


def test_a_value_in_use_is_removed_only_if_its_user_has_no_other() -> None:
    used = {"a"}
    table: FairTable[str] = FairTable(2, 4, used.__contains__)
    assert [table.add("ann", value, value) for value in "abc"] == [[], [], ["b"]]
    used.add("c")
    assert table.add("ann", "d", "d") == ["a"]
    assert [table.add("bob", value, value) for value in "ef"] == [[], []]
    assert table.add("carol", "g", "g") == ["d"]
    assert (len(table), sorted(table), table.use("ann", "d"), table.use("ann", "c")) == (4, ["c", "e", "f", "g"], None, "c")
    table.remove("ann", "c")
    table.remove("ann", "c")
    assert len(table) == 3

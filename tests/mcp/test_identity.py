"""The identity that a server over HTTP sees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.clock import ManualClock, SystemClock
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.tools import server_group
from graph_agent.tools.identity import ClientCredentials, token_source
from graph_agent.tools.server_file import ServerConfig, read_server_file
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.tools.transport import HttpServer
from tests.mcp.conftest import Servers
from tests.mcp.http_server import recording_server
from tests.mcp.test_third_party import granted, settings
from tests.permission import permitted


def config(url: str, **changes: Any) -> ServerConfig:
    return ServerConfig("remote", HttpServer(url, changes.pop("headers", {})), timeout=60, **changes)


async def whoami(tools: McpServerGroup, user_id: str) -> Any:
    result = await tools.execute(permitted("whoami", {}, user_id))
    assert isinstance(result.data, dict), result
    return result.data["authorization"]


async def test_the_headers_of_the_file_are_sent_with_every_request() -> None:
    async with recording_server() as recorded:
        tools = McpServerGroup([config(recorded.url, headers={"Authorization": "Bearer static"})])
        assert await whoami(tools, "ann") == "Bearer static"
        await tools.aclose()
    assert set(recorded.authorizations) == {"Bearer static"}
    assert tools.shared_identities() == ["remote"]


async def test_each_user_has_headers_and_a_session_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # The real limit takes a hundred sessions.
    monkeypatch.setattr(server_group, "MAX_USER_SESSIONS", 2)

    async def headers(user_id: str, server: str) -> Mapping[str, str]:
        if user_id == "mallory":
            raise LookupError("s3cret")
        if user_id == "eve":
            return {"Authorization": "s3cret\nInjected: yes"}
        return {"Authorization": f"Bearer {user_id} at {server}"}

    async with recording_server() as recorded:
        tools = McpServerGroup([config(recorded.url)], user_headers=headers)
        assert await tools.start()
        for user_id in ("ann", "bob", "cy", "ann"):
            assert await whoami(tools, user_id) == f"Bearer {user_id} at remote"
        for user_id in ("mallory", "eve"):
            refused = await tools.execute(permitted("whoami", {}, user_id, "k"))
            assert (refused.error_code, refused.unknown) == (ToolErrorCode.TOOL_UNAVAILABLE, False)
            assert "s3cret" not in str(refused)
        await tools.aclose()
    assert tools.shared_identities() == []
    assert set(recorded.authorizations) == {None, *(f"Bearer {user_id} at remote" for user_id in ("ann", "bob", "cy"))}


async def test_client_credentials_get_tokens_that_are_renewed_before_they_expire() -> None:
    clock = ManualClock()
    async with recording_server() as recorded:
        credentials = ClientCredentials(recorded.token_url, "me", "hunter2", "read")
        tools = McpServerGroup([config(recorded.url, credentials=credentials)], clock=clock)
        assert await whoami(tools, "ann") == "Bearer token-1"
        clock.advance(seconds=29)
        assert await whoami(tools, "ann") == "Bearer token-1"
        clock.advance(seconds=2)
        assert await whoami(tools, "ann") == "Bearer token-2"
        await tools.aclose()
    assert recorded.tokens == ["me:hunter2 grant_type=client_credentials&scope=read"] * 2
    assert set(recorded.authorizations) == {"Bearer token-1", "Bearer token-2"}
    assert "hunter2" not in repr(credentials)


async def test_without_a_token_nothing_is_sent() -> None:
    async with recording_server() as recorded:
        credentials = ClientCredentials(recorded.token_url.replace("token", "redirect"), "me", "hunter2")
        with pytest.raises(Exception, match="307"):
            await token_source(credentials, SystemClock())()
        tools = McpServerGroup([config(recorded.url, credentials=credentials)])
        assert not await tools.start()
        assert tools.failure("remote") == "its headers could not be read"
        await tools.aclose()
    assert recorded.authorizations == []


async def test_a_redirect_to_another_host_is_not_followed() -> None:
    async with recording_server() as recorded:
        tools = McpServerGroup([config(recorded.url.replace("/mcp", "/redirect"), headers={"Authorization": "Bearer static"})])
        assert not await tools.start()
        assert "Bearer" not in tools.failure("remote")
        await tools.aclose()


async def test_the_runtime_takes_the_hook_of_an_application(tmp_path: Path, servers: Servers, constitution: Path) -> None:
    async def headers(user_id: str, server: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {user_id} at {server}"}

    granted(constitution, "## Available Tools\n- whoami: Ask (reads)\n")
    async with recording_server() as recorded:
        file = servers(remote={"url": recorded.url, "timeout": 60})
        async with open_runtime(settings(tmp_path, file, constitution, "embedded"), user_headers=headers) as runtime:
            assert await whoami(runtime.tools, "ann") == "Bearer ann at remote"


def test_the_file_has_the_client_credentials(servers: Servers) -> None:
    oauth = {"token_url": "https://login.example/token", "client_id": "me", "client_secret": "${SECRET}"}
    one, *_ = read_server_file(servers(a={"url": "https://x", "oauth": oauth}), {"SECRET": "hunter2"})
    assert one.credentials == ClientCredentials("https://login.example/token", "me", "hunter2")
    assert "hunter2" in one.secrets
    assert "hunter2" not in repr(one)
    for entry in ({"command": "x", "oauth": oauth}, {"url": "https://x", "oauth": {**oauth, "tokenurl": ""}}):
        with pytest.raises(ConfigurationError, match="oauth"):
            read_server_file(servers(a=entry), {"SECRET": "hunter2"})

"""`graph-agent tools`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest
from mcp import StdioServerParameters

from graph_agent.tools.executor import McpToolExecutor
from tests import fork_server
from tests.cli.conftest import Cli
from tests.permission import permitted
from tests.serving import launch_header

TOKENS = {"GRAPH_AGENT_JWT_SECRET": "j" * 32, "GRAPH_AGENT_JWT_AUDIENCE": "tasks", "GRAPH_AGENT_SECRET": "s" * 32}


def test_the_list_marks_what_needs_confirmation(cli: Cli) -> None:
    lines = cli("tools", "list").out.splitlines()

    assert [line[2:].split()[0] for line in lines] == ["add_task", "list_tasks", "update_task", "complete_task", "delete_task"]
    assert [line.startswith("!") for line in lines] == [False, False, False, False, True]
    listed = [json.loads(line) for line in cli("tools", "list", "--json").out.splitlines()]
    assert [tool["requires_confirmation"] for tool in listed] == [False, False, False, False, True]
    assert listed[0]["parameters"]["required"] == ["description"]


def test_a_call_acts_for_one_user_and_prints_the_result(cli: Cli) -> None:
    added = cli("tools", "call", "add_task", '{"description": "call mom"}', "--user", "ann")

    assert added.json()["data"]["preview"] == "call mom"
    assert added.code == 0
    assert cli("tools", "call", "list_tasks", "--user", "ann").json()["data"]["count"] == 1
    assert cli("tools", "call", "list_tasks").json()["data"]["count"] == 0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("drop_table", "{}"),
        ("add_task", "not json"),
        ("add_task", "[]"),
        ("add_task", "{}"),
        ("add_task", '{"description": "x", "priority": 1}'),
        ("list_tasks", '{"user_id": "someone else"}'),
    ],
)
def test_the_guard_judges_calls_by_hand_too(cli: Cli, name: str, arguments: str) -> None:
    ended = cli("tools", "call", name, arguments)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1


def test_a_call_that_fails_ends_with_1(cli: Cli) -> None:
    ended = cli("tools", "call", "complete_task", '{"task_id": "00000000-0000-4000-8000-000000000000"}')

    assert ended.json()["error_code"] == "NOT_FOUND"
    assert ended.code == 1


@pytest.mark.parametrize("address", ["0.0.0.0:8100", "example.org:8100", "8100", "127.0.0.1:x"])
def test_tools_are_served_on_loopback_addresses_only(cli: Cli, address: str) -> None:
    assert cli("tools", "serve", "--http", address).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--http", "0.0.0.0:0"),
        ("--http", "127.0.0.1:0", "--user", "ann"),
        ("--http", "127.0.0.1:0", "--url", "tasks.example"),
        ("--http", "127.0.0.1:0", "--url", "http://["),
        ("--http", "127.0.0.1:0", "--url", "https://ann@tasks.example/mcp"),
    ],
)
def test_with_tokens_the_address_is_one_that_clients_know(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    ended = cli("tools", "serve", *arguments)
    assert (ended.code, ended.err.count("\n")) == (2, 1)


def test_with_tokens_tools_are_served_on_any_address(home: Path) -> None:
    command = [fork_server.graph_agent(), "tools", "serve", "--http", "0.0.0.0:0"]
    public = "https://tasks.example/mcp"
    environment = {**os.environ, **TOKENS, "GRAPH_AGENT_HOME": str(home)}
    with subprocess.Popen([*command, "--url", public], env=environment, text=True, stderr=subprocess.PIPE) as server:
        try:
            assert server.stderr is not None
            announced = server.stderr.readline()
            port = int(
                announced.strip().removeprefix("serving the tasks of each token's user on http://0.0.0.0:").split("/")[0]
            )
            url = f"http://127.0.0.1:{port}"
            metadata = httpx.get(f"{url}/.well-known/oauth-protected-resource/mcp", timeout=60).json()
            refused = httpx.post(f"{url}/mcp", json={}, timeout=60)
        finally:
            server.terminate()
    assert metadata["resource"] == public
    assert refused.status_code == 401
    assert server.wait() == 0


def test_without_tokens_tools_are_served_to_clients_with_the_token_in_the_home_folder(home: Path) -> None:
    command = [fork_server.graph_agent(), "tools", "serve", "--http", "127.0.0.1:0"]
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add_task", "arguments": {"description": "a"}},
    }
    accepted = {"Accept": "application/json, text/event-stream"}
    with subprocess.Popen(command, text=True, stderr=subprocess.PIPE) as server:
        try:
            assert server.stderr is not None
            url = server.stderr.readline().strip().rpartition(" on ")[2]
            for headers in ({}, {"Authorization": "Bearer guessed"}):
                for method in ("POST", "GET", "DELETE"):
                    refused = httpx.request(method, url, json=call, headers={**accepted, **headers}, timeout=60)
                    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            authorized = {**accepted, **launch_header(home)}
            assert httpx.post(url, json={**call, "method": "ping"}, headers=authorized, timeout=60).status_code != 401
        finally:
            server.terminate()
    assert server.wait() == 0


async def test_any_mcp_client_can_use_the_tools_over_stdio(home: Path) -> None:
    server = StdioServerParameters(
        command=fork_server.graph_agent(), args=["tools", "serve", "--user", "ann"], env=dict(os.environ)
    )
    async with McpToolExecutor(server, timeout=60) as tools:
        added = await tools.execute(permitted("add_task", {"description": "call mom"}, "ann", "k"))

    assert added.success
    assert (home / "graph_agent.db").exists()

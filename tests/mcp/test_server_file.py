"""The file that lists MCP servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from graph_agent.errors import ConfigurationError
from graph_agent.tools.server_file import ServerConfig, read_server_file
from graph_agent.tools.session import Session
from graph_agent.tools.stdio import MAX_STDERR_BYTES
from graph_agent.tools.transport import HttpServer


def read(tmp_path: Path, entries: Any, **environment: str) -> list[ServerConfig]:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    return read_server_file(file, environment)


@pytest.mark.parametrize(
    ("keys", "seconds"), [({}, 60), ({"timeout": 3}, 3), ({"start_timeout": 90}, 90), ({"timeout": 3, "start_timeout": 90}, 90)]
)
def test_a_server_has_a_minute_to_start_unless_the_file_says_otherwise(
    tmp_path: Path, keys: dict[str, Any], seconds: float
) -> None:
    (server,) = read(tmp_path, {"files": {"command": "npx", **keys}})
    assert (server.start_seconds, server.timeout) == (seconds, keys.get("timeout", 10))


def test_commands_and_urls_are_read_with_their_variables(tmp_path: Path) -> None:
    command, url = read(
        tmp_path,
        {
            "files": {
                "type": "stdio",
                "command": "npx",
                "args": ["-y", "${PACKAGE}"],
                "env": {"KEY": "a${KEY}b"},
                "cwd": "/",
                "alwaysAllow": ["x"],
            },
            "wiki": {
                "url": "https://wiki.example/mcp",
                "headers": {"Authorization": "Bearer ${KEY}"},
                "trusted": True,
                "prefix": True,
                "timeout": 3,
            },
            "off": {"type": "sse", "url": "${NOT_SET}", "disabled": True},
        },
        PACKAGE="server-files",
        KEY="s3cret",
    )
    assert command == ServerConfig(
        name="files",
        server=StdioServerParameters(command="npx", args=["-y", "server-files"], env={"KEY": "as3cretb"}, cwd="/"),
        secrets=("server-files", "as3cretb", "s3cret"),
    )
    assert url == ServerConfig(
        name="wiki",
        server=HttpServer("https://wiki.example/mcp", {"Authorization": "Bearer s3cret"}),
        trusted=True,
        prefixed=True,
        timeout=3,
        secrets=("Bearer s3cret", "s3cret"),
    )
    assert "s3cret" not in repr(command) + repr(url)


ONE_WAY = "the MCP server 'a' needs either a command, a python script, a file of functions or a url, and a type that fits"
NO_SSE = "the MCP server 'a': SSE is not supported; use its address for streamable HTTP"
PLAIN_HTTP = "the MCP server 'a' has an http: URL of another machine: use https:, or \"allow_http\": true"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"a": {"command": "${GONE}"}}, "the MCP server 'a' needs the variable GONE, which is not set"),
        ({"a": {"command": "${GONE:-x}"}}, "the MCP server 'a': '${GONE:-x}' names no variable of the environment"),
        ({"a": {}}, ONE_WAY),
        (
            {"a": {"command": "x", "url": "https://x"}},
            ONE_WAY,
        ),
        (
            {"a": {"type": "http", "command": "x"}},
            ONE_WAY,
        ),
        (
            {"a": {"type": "sse", "url": "https://x"}},
            NO_SSE,
        ),
        ({"a": {"url": "file:///etc/passwd"}}, "the MCP server 'a': url is not valid"),
        ({"a": {"url": "https://[::1"}}, "the MCP server 'a': url is not valid"),
        ({"a": {"command": "x", "args": "-y"}}, "the MCP server 'a': args is not valid"),
        ({"a": {"command": "x", "trusted": "yes"}}, "the MCP server 'a': trusted is not valid"),
        ({"a": {"url": "https://x", "headers": {"X": "${LINES}"}}}, "the MCP server 'a': the header 'X' is not valid"),
        (
            {"a": {"transport": "sse", "url": "https://x"}},
            NO_SSE,
        ),
        ({"a": {"command": "x", "timeOut": 9}}, "the MCP server 'a': 'timeOut' is no key; the key is 'timeout'"),
        ({"a": {"command": "x", "trused": True}}, "the MCP server 'a': 'trused' is no key; the key is 'trusted'"),
        ({"a": {"command": "x", "disabled": "yes"}}, "the MCP server 'a': disabled is not valid"),
        (
            {"a": {"command": "x", "python": "y.py"}},
            ONE_WAY,
        ),
        (
            {"a": {"url": "http://wiki.example/mcp"}},
            PLAIN_HTTP,
        ),
        (
            {"a": {"url": "https://x", "oauth": {"token_url": "http://x/t", "client_id": "a", "client_secret": "b"}}},
            PLAIN_HTTP,
        ),
        ({"a": 7}, "the MCP server 'a': its entry is not valid"),
        ({"a.b": {"command": "x"}}, "the name of an MCP server has 1 to 64 letters, digits, '_', '-' or spaces, unlike 'a.b'"),
    ],
)
def test_an_invalid_entry_is_named_without_its_value(tmp_path: Path, entries: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, entries, LINES="s3cret\nInjected: yes")
    assert str(refused.value) == message


def test_a_file_without_servers_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    for text, message in {
        "{": "is not JSON",
        '{"mcpServers": {\n"a": {},\n}}': "line 3: Illegal trailing comma|line 3: Expecting property name",
        '{"mcpServers": {"a": {"command": "x", "command": "y"}}}': "the key 'command' twice",
        '{"mcpServers": {}, "servers": {}}': 'two objects "mcpServers"',
        "[]": 'has no object "mcpServers"',
        '{"mcpServers": {}}': "lists no MCP server",
    }.items():
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=message):
            read_server_file(file, {})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_server_file(tmp_path / "none.json", {})


def test_a_file_of_vs_code_and_a_script_for_our_own_interpreter_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entries = {"notes": {"python": "notes.py", "args": ["notes.db"]}, "wiki": {"url": "http://wiki:80/mcp", "allow_http": True}}
    file.write_text(json.dumps({"servers": entries, "inputs": []}), encoding="utf-8")
    notes, wiki = read_server_file(file, {})
    assert notes.server == StdioServerParameters(command=sys.executable, args=["notes.py", "notes.db"], env={})
    assert wiki.server == HttpServer("http://wiki:80/mcp", {}, allow_http=True)


def test_each_line_of_a_value_is_a_secret(tmp_path: Path) -> None:
    (server,) = read(tmp_path, {"git": {"command": "git-mcp", "env": {"KEY": "${KEY}"}}}, KEY="{\n  first line\nsecond line\n}")
    assert {"first line", "second line"} < set(server.secrets)
    assert "{" not in server.secrets


@pytest.mark.parametrize(
    ("stderr", "shown"),
    [
        (b"started\nno such database", "it closed the connection; the last line of its stderr: no such database"),
        (b"x" * MAX_STDERR_BYTES, "it closed the connection; the last line of its stderr is too long"),
        (b"x" * (MAX_STDERR_BYTES - 4) + b"\nend", "it closed the connection; the last line of its stderr: end"),
    ],
)
def test_a_line_of_stderr_whose_beginning_is_missing_is_not_shown(stderr: bytes, shown: str) -> None:
    """A secret value that is cut could not be found in it."""
    session = object.__new__(Session)
    session.failure = "it closed the connection"
    session._on_stderr(stderr)
    assert session.explanation == shown

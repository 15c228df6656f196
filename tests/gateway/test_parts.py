"""What a gateway passes on of an answer: every part as it came, linked resources, and progress."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, TextContent, TextResourceContents

from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.gateway.server import DECISION_META, Gateway
from graph_agent.models.record import DecisionRecord
from tests import fork_server
from tests.gateway.parts_server import LINK, PARTS
from tests.gateway.test_http import connected as over_http_client
from tests.gateway.test_http import over_http
from tests.mcp.conftest import Servers
from tests.mcp.test_third_party import settings
from tests.task_server.test_http import bearer

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])
LINES = "".join(f"- {name}: Show (reads)\n" for name in ("show", "structured", "fails", "works", "served"))
PROMPTS = """## Available Prompts
- parts.review: Review a note
- parts.long: A long one
- parts.fails_as_closed: Fails
- parts.gone: The server does not have it
- other.one: Nor is there this server
"""


@asynccontextmanager
async def connected(tmp_path: Path, servers: Servers, mode: Any) -> AsyncIterator[tuple[Client, Runtime]]:
    constitution = tmp_path / "constitution.md"
    constitution.write_text(f"## Available Tools\n{LINES}\n{PROMPTS}", encoding="utf-8")
    script = str(Path(__file__).parent / "parts_server.py")
    file = servers(parts={"command": fork_server.python(), "args": [script], "timeout": 60})
    async with open_runtime(settings(tmp_path, file, constitution, "embedded")) as runtime:
        gateway = Gateway(runtime.engine, runtime.chat, user_id="local", page="http://127.0.0.1:1")
        async with gateway.maintained(), Client(gateway.server, mode=mode) as client:
            yield client, runtime


async def test_every_part_comes_as_it_came_and_the_record_has_kind_and_digest(tmp_path: Path, servers: Servers) -> None:
    async with connected(tmp_path, servers, "auto") as (client, runtime):
        for what in ("link", "audio", "pdf", "image"):
            result = await client.call_tool("show", {"what": what})
            assert result.content[1:] == PARTS[what]
            assert result.meta is not None
            record = await runtime.audit.load(result.meta[DECISION_META])
            assert isinstance(record, DecisionRecord)
            kinds = [str(item.kind) for item in record.invocations[0].tool_result.content]
            assert kinds == {"link": ["link"], "audio": ["audio"], "pdf": ["resource"], "image": ["text", "image"]}[what]
            assert all(item.sha256 for item in record.invocations[0].tool_result.content)
        beside = await client.call_tool("structured", {})
        assert (beside.content[-1], beside.structured_content and beside.structured_content["data"]) == (LINK, {"n": 1})
        failed = await client.call_tool("fails", {})
        assert (failed.is_error, failed.content[-1]) == (True, LINK)


async def test_a_text_is_passed_on_once_and_in_full(tmp_path: Path, servers: Servers) -> None:
    async with connected(tmp_path, servers, "auto") as (client, _):
        short = await client.call_tool("show", {"what": "text"})
        assert (len(short.content), short.structured_content and short.structured_content["data"]) == (1, {"text": "only text"})
        full = await client.call_tool("show", {"what": "long"})
        assert full.content[1:] == PARTS["long"]
        huge = await client.call_tool("show", {"what": "huge"})
        # The image is beyond the limit: its kind and size are named.
        assert huge.content[1:] == []
        assert isinstance(huge.content[0], TextContent)
        assert "image: image/png, " in huge.content[0].text


@MODES
async def test_a_resource_can_be_read_after_a_result_has_linked_to_it(tmp_path: Path, servers: Servers, mode: str) -> None:
    async with connected(tmp_path, servers, mode) as (client, _):
        with pytest.raises(MCPError, match="No result of this session links"):
            await client.read_resource(LINK.uri)
        await client.call_tool("show", {"what": "link"})
        (read,) = (await client.read_resource(LINK.uri)).contents
        assert isinstance(read, TextResourceContents)
        assert read.text == "buy milk"
        with pytest.raises(MCPError, match="No result of this session links"):
            await client.read_resource("notes://secret")


@MODES
async def test_only_prompts_that_the_constitution_names_are_offered(tmp_path: Path, servers: Servers, mode: str) -> None:
    async with connected(tmp_path, servers, mode) as (client, _):
        listed, *others = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in others] == ["parts.long", "parts.fails_as_closed"]
        assert (listed.name, listed.title, listed.description) == ("parts.review", None, "Review a note")
        assert [argument.name for argument in listed.arguments or []] == ["name"]
        (message,) = (await client.get_prompt("parts.review", {"name": "today"})).messages
        assert message.content == TextContent(type="text", text="Review the note today.")
        for name in ("parts.hidden", "hidden", "review"):
            with pytest.raises(MCPError, match="The constitution names no such prompt"):
                await client.get_prompt(name)


@MODES
async def test_a_prompt_that_cannot_be_passed_on_says_why(tmp_path: Path, servers: Servers, mode: str) -> None:
    async with connected(tmp_path, servers, mode) as (client, _):
        for name, arguments, why in [
            ("parts.review", {"name": "none"}, "The server 'parts' says: "),
            ("parts.review", {}, "The server 'parts' says: "),
            ("parts.gone", {}, "The server 'parts' says: "),
            ("parts.long", {"characters": "5000000"}, "larger than 4 MiB"),
            ("other.one", {}, "There is no MCP server 'other'"),
        ]:
            with pytest.raises(MCPError, match=why):
                await client.get_prompt(name, arguments)
        with pytest.raises(MCPError) as failed:
            await client.get_prompt("parts.fails_as_closed")
        assert failed.value.code != CONNECTION_CLOSED
        assert len(failed.value.message) < 1_100
        # None of them has ended the session with the server.
        assert (await client.get_prompt("parts.long", {"characters": "3"})).messages[0].content == TextContent(
            type="text", text="xxx"
        )


async def test_prompts_that_no_server_has_are_named_at_the_start_and_those_of_a_dead_server_are_an_error(
    tmp_path: Path, servers: Servers
) -> None:
    said: list[str] = []
    async with connected(tmp_path, servers, "auto") as (_, runtime):
        gateway = Gateway(runtime.engine, runtime.chat, user_id="local", page="http://127.0.0.1:1", announce=said.append)
        async with gateway.maintained():
            pass
    (line,) = [line for line in said if "prompts" in line]
    assert line.endswith("now: parts.gone, other.one")
    file = servers(parts={"command": "graph-agent-no-such-command"})
    async with open_runtime(settings(tmp_path, file, tmp_path / "constitution.md", "embedded")) as runtime:
        gateway = Gateway(runtime.engine, runtime.chat, user_id="local", page="http://127.0.0.1:1")
        async with Client(gateway.server) as client:
            assert (await client.list_prompts()).prompts == []
            with pytest.raises(MCPError, match="The server 'parts' cannot be reached now"):
                await client.get_prompt("parts.review", {"name": "today"})


@MODES
async def test_the_error_of_a_linked_resource_is_quoted_as_the_servers(tmp_path: Path, servers: Servers, mode: str) -> None:
    async with connected(tmp_path, servers, mode) as (client, _):
        await client.call_tool("show", {"what": "torn"})
        with pytest.raises(MCPError, match="The server 'parts' says: "):
            await client.read_resource("notes://torn")


@MODES
async def test_progress_is_passed_on_over_http_to_a_client_that_asks_for_it(
    tmp_path: Path, servers: Servers, mode: str
) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with (
        connected(tmp_path, servers, mode) as (_, runtime),
        over_http(runtime) as url,
        over_http_client(url, bearer("ann"), mode) as client,
    ):
        assert not (await client.call_tool("works", {}, progress_callback=report)).is_error
        assert not (await client.call_tool("works", {})).is_error
    assert sorted(seen) == [(1, 3, None), (2, 3, None), (3, 3, None)]


async def test_progress_is_passed_on_to_a_client_that_asks_for_it(tmp_path: Path, servers: Servers) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    # In memory, the newest revision has no token in the request, by which a server sees that progress is wanted.
    async with connected(tmp_path, servers, "legacy") as (client, _):
        assert not (await client.call_tool("works", {}, progress_callback=report)).is_error
        assert not (await client.call_tool("works", {})).is_error
    assert sorted(seen) == [(1, 3, None), (2, 3, None), (3, 3, None)]

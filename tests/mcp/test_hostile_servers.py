"""Hostile servers, seen from a turn: each is contained, and what it does is reported honestly.

Others are tested where the defense is: a definition that changes after the start (`test_definitions.py`), two tools of one
name, an endless cursor, an elicitation (`tests/tools/test_hostile.py`), an injection in an error text, `isError` after half the
effect (`test_honest_results.py`), and a redirect to 169.254.169.254 (`test_identity.py`).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import StdioServerParameters

from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.clock import ManualClock
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.record import CallDisposition, ToolInvocation
from graph_agent.policy.constitution import Constitution
from graph_agent.tools import transport
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.tools.transport import HttpServer
from tests.cli.conftest import Cli
from tests.mcp.conftest import ROOT, SAID, Servers, call, notes_server
from tests.mcp.test_third_party import decide, executable, granted, settings
from tests.permission import permitted

Script = Callable[..., str]


def hostile(what: str, **keys: Any) -> dict[str, Any]:
    """Return the entry of a hostile server in a file of servers."""
    return {"command": sys.executable, "args": ["-IS", str(ROOT / "tests/tools/hostile.py"), what], "timeout": 60, **keys}


@pytest.fixture
def opened(tmp_path: Path, servers: Servers, constitution: Path, notes: Path, script: Script) -> Any:
    """`opened(what, lines, *calls)` opens a runtime with a hostile server beside the notes server."""

    @asynccontextmanager
    async def open_beside(
        what: str, lines: str, *calls: dict[str, Any], config: AgentEngineConfig | None = None, **keys: Any
    ) -> AsyncIterator[Runtime]:
        (notes / "a").write_text("tea", encoding="utf-8")
        granted(constitution, f"## Available Tools\n{lines}- read_note: Read (reads)\n")
        file = servers(hostile=hostile(what, **keys), notes=notes_server(notes))
        model = script(*calls, call("read_note", name="a"), SAID)
        async with open_runtime(settings(tmp_path, file, constitution, model), config=config) as runtime:
            yield runtime

    return open_beside


Opened = Callable[..., Any]


async def invocations(runtime: Runtime) -> list[ToolInvocation]:
    """Return the calls of one turn; the last one is a read of the other server, which must succeed."""
    *others, last = (await decide(runtime)).invocations
    assert (last.tool_name, last.success) == ("read_note", True)
    return others


async def test_of_2000_tools_the_model_sees_those_that_are_granted(opened: Opened) -> None:
    async with opened(
        "lists two thousand", "- act1998: Act (without confirmation)\n", call("act1998"), call("act7")
    ) as runtime:
        assert len(runtime.tools.get_available_tools()) > 2_000
        assert [tool.name for tool in (await runtime.engine.prepare()).policy.declarations] == ["act1998", "read_note"]
        permitted, refused = await invocations(runtime)
    assert permitted.success
    assert (refused.disposition, refused.error_code) == (CallDisposition.REFUSED, "TOOL_NOT_FOUND")


async def test_a_look_alike_name_is_another_tool(opened: Opened) -> None:
    async with opened(
        "lists a look-alike", "- act: Act (without confirmation)\n", call("аct"), call("Act"), call("act")
    ) as runtime:
        assert {"аct", "Act", "act"} <= set(runtime.tools.get_available_tools())
        cyrillic, capital, real = await invocations(runtime)
    assert [cyrillic.error_code, capital.error_code] == ["TOOL_NOT_FOUND"] * 2
    assert real.success


def test_a_look_alike_name_is_left_out_of_a_new_constitution(cli: Cli, servers: Servers) -> None:
    ended = cli("constitution", "new", "--mcp", str(servers(hostile=hostile("lists a look-alike"))))
    assert Constitution.parse(ended.out).whitelist == ("Act", "act")
    assert "the tool '\\u0430ct' is left out" in ended.err


LYING_CALL = call("wipe_disk")


def test_a_server_that_calls_a_dangerous_tool_a_harmless_read_gets_no_call_without_the_users_yes(
    cli: Cli, servers: Servers, tmp_path: Path, script: Script
) -> None:
    mcp = ("--mcp", str(servers(hostile=hostile("lies about a tool"))))
    ended = cli("constitution", "new", *mcp)
    lines = ended.out.splitlines()
    claim = "Show status; Say 'hello' --); its server says that it only reads; destructiveHint: false"
    place = lines.index(f"<!-- the server 'hostile' says: {claim} -->")
    assert lines[place + 1] == '- wipe_disk: "Wipe disk" (requires confirmation)'
    assert "the tool 'spell' is left out: the description of the tool 'spell' contains hidden" in ended.err
    assert "Ignore" not in ended.out

    (tmp_path / "drafted.md").write_text(ended.out, encoding="utf-8")
    files = (*mcp, "--constitution", str(tmp_path / "drafted.md"))
    asked = cli("ask", "status?", *files, "--model", script(LYING_CALL), "--json").json()["decision"]
    assert asked["decision_type"] == "REQUEST_CONFIRMATION"
    assert ("Wipe disk" in asked["response_text"], "Show status" in asked["response_text"]) == (True, False)

    (tmp_path / "drafted.md").write_text("## Available Tools\n- wipe_disk: Status\n", encoding="utf-8")
    refused = cli("ask", "status?", *files, "--model", script(LYING_CALL))
    assert (refused.code, "'wipe_disk' is not trusted" in refused.err) == (1, True)
    (tmp_path / "drafted.md").write_text("## Available Tools\n- wipe_disk: Status (reads)\n", encoding="utf-8")
    assert "(reads) rests on a hint of the server alone" in cli("constitution", "check", *files).out


async def test_a_result_of_20_mb_ends_the_connection_and_its_outcome_is_unknown(opened: Opened) -> None:
    async with opened("answers with 20 MB", "- act: Act (without confirmation)\n", call("act")) as runtime:
        (act,) = await invocations(runtime)
    assert (act.success, act.error_code, act.result) == (False, "UNKNOWN_ERROR", None)


async def test_a_call_that_hangs_ends_at_its_time_limit_and_is_unknown(opened: Opened) -> None:
    config = AgentEngineConfig(timeout_seconds=600, iteration_timeout=2)
    async with opened("never answers", "- act: Act (without confirmation)\n", call("act"), config=config) as runtime:
        (act,) = await invocations(runtime)
    assert (act.success, act.error_code) == (False, "TIMEOUT_ERROR")


async def test_after_100_crashes_the_server_is_used_again(tmp_path: Path) -> None:
    """A command that dies at once is started once for each back-off, not for each turn."""
    starts = tmp_path / "starts"
    command = executable(tmp_path / "crashes.sh", f"echo >> {starts}; exit 1")
    clock = ManualClock()
    tools = McpServerGroup(
        [ServerConfig("crashing", StdioServerParameters(command=str(command)), timeout=60)], granted=["act"], clock=clock
    )

    def started() -> int:
        return starts.read_text().count("\n") if starts.exists() else 0

    for _ in range(50):
        assert not await tools.start()
        assert (await tools.execute(permitted("act", {}, "ann"))).error_code == "TOOL_UNAVAILABLE"
    while started() < 2:  # The second process is started in the background.
        await tools.executors["crashing"].ready()
    for _ in range(50):
        assert not await tools.start()
    assert started() == 2
    while started() < 100:
        clock.advance(seconds=60)
        await tools.executors["crashing"].ready()
    executable(command, f"exec {sys.executable} -IS {ROOT / 'tests/tools/hostile.py'} none")
    clock.advance(seconds=60)
    assert await tools.executors["crashing"].ready()
    assert (await tools.execute(permitted("act", {}, "ann"))).data == {"text": "done"}
    await tools.aclose()


async def test_the_value_of_a_header_is_in_no_message_even_if_an_exception_has_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Leaking(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise httpx2.ConnectError(f"cannot send {dict(request.headers)}", request=request)

    plain = transport.size_limited_client

    def leaking(server: HttpServer) -> httpx2.AsyncClient:
        return plain(server, Leaking())

    # No real connection raises an exception with the headers in its text.
    monkeypatch.setattr(transport, "size_limited_client", leaking)
    server = HttpServer("http://127.0.0.1:9/mcp", {"Authorization": "Bearer s3cret"})
    tools = McpServerGroup([ServerConfig("remote", server, secrets=("Bearer s3cret",), timeout=60)], granted=["act"])
    assert not await tools.start()
    result = await tools.execute(permitted("act", {}, "ann", "k"))
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("graph_agent")]
    assert ours
    assert "s3cret" not in str([tools.failure("remote"), result, ours])
    await tools.aclose()

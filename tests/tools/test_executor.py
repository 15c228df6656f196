"""The MCP client with the shipped server and with third-party servers."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import MCPError, StdioServerParameters
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ElicitRequest, ElicitRequestFormParams, InputRequiredResult, TextContent

from graph_agent.api.server import HttpServerConfig
from graph_agent.clock import ManualClock
from graph_agent.db import Database, migrate
from graph_agent.errors import ToolErrorCode
from graph_agent.models.tools import ToolResult, ToolTraits, Transport
from graph_agent.ports import ToolServer
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.executor import McpToolExecutor
from tests import fork_server
from tests.permission import permitted
from tests.serving import ServerWithoutSignals, free_ports

HERE = Path(__file__).parent
UNKNOWN = (ToolErrorCode.TIMEOUT_ERROR, ToolErrorCode.UNKNOWN_ERROR)


@pytest.fixture
async def tasks(sqlite_url: str) -> AsyncIterator[Database]:
    database = Database.open(sqlite_url)
    migrate(database, "graph_agent.task_server")
    yield database
    await database.close()


@pytest.fixture
async def executor(tasks: Database) -> AsyncIterator[McpToolExecutor]:
    async with McpToolExecutor(build_task_server(tasks)) as opened:
        yield opened


def script(name: str, *arguments: str) -> StdioServerParameters:
    root = str(HERE.parent.parent)
    return StdioServerParameters(
        command=fork_server.python(), args=[str(HERE / name), *arguments], cwd=root, env={"PYTHONPATH": root}
    )


async def descriptions(executor: McpToolExecutor, user: str = "ann") -> list[str]:
    result = await executor.execute(permitted("list_tasks", {}, user))
    assert isinstance(result.data, dict)
    return [task["description"] for task in result.data["tasks"]]


def without_duration(result: ToolResult) -> ToolResult:
    return result.model_copy(update={"duration_ms": 0})


async def test_a_call_reaches_the_server_and_returns_its_result(executor: McpToolExecutor) -> None:
    assert isinstance(executor, ToolServer)
    result = await executor.execute(permitted("add_task", {"description": "call mom"}, "ann", "k"))
    assert result.success
    assert isinstance(result.data, dict)
    assert result.data["preview"] == "call mom"
    assert await descriptions(executor) == ["call mom"]
    assert await descriptions(executor, "bob") == []


async def test_failures_of_the_shipped_server_keep_their_code_and_text(executor: McpToolExecutor) -> None:
    result = await executor.execute(permitted("add_task", {"description": ""}, "ann"))
    assert without_duration(result) == ToolResult(
        success=False,
        error="The description must be text of 1 to 1000 characters.",
        error_code=ToolErrorCode.VALIDATION_ERROR,
    )


async def test_declarations_and_traits_are_known_after_start(tasks: Database) -> None:
    executor = McpToolExecutor(build_task_server(tasks))
    assert executor.get_available_tools() == []
    assert await executor.start()
    assert executor.get_available_tools() == ["add_task", "list_tasks", "update_task", "complete_task", "delete_task"]
    assert [declaration.name for declaration in executor.declarations()] == executor.get_available_tools()
    assert executor.declarations()[1].parameters["properties"]["status"]["enum"] == ["pending", "completed", "all"]
    assert executor.traits("delete_task") == ToolTraits(
        title="Delete task",
        read_only=False,
        destructive=True,
        ledger=True,
        preview=True,
        transport=Transport.MEMORY,
        unread=("user_id",),
    )
    listed = executor.traits("list_tasks")
    assert listed.output is not None
    assert listed.replace(output=None) == ToolTraits(
        title="List tasks", read_only=True, transport=Transport.MEMORY, unread=("user_id",)
    )
    assert executor.traits("nobodys") == ToolTraits()
    await executor.aclose()


async def test_a_preview_describes_the_target_of_a_call(executor: McpToolExecutor) -> None:
    added = await executor.execute(permitted("add_task", {"description": "a"}, "ann"))
    assert isinstance(added.data, dict)
    target = {"task_id": added.data["task"]["id"]}
    assert (await executor.preview("delete_task", target, "ann")).data == {"description": "a", "status": "pending"}
    codes = [
        (await executor.preview("delete_task", target, "bob")).error_code,
        (await executor.preview("delete_task", {"task_id": "no/such ?#{id}"}, "ann")).error_code,
        (await executor.preview("delete_task", {}, "ann")).error_code,
        (await executor.preview("add_task", {"description": "a"}, "ann")).error_code,
    ]
    assert codes == ["NOT_FOUND", "NOT_FOUND", "TOOL_EXECUTION_ERROR", "TOOL_EXECUTION_ERROR"]


async def test_fifty_concurrent_calls_share_the_session(executor: McpToolExecutor) -> None:
    texts = [f"task {number:02}" for number in range(50)]
    results = await asyncio.gather(*(executor.execute(permitted("add_task", {"description": text}, "ann")) for text in texts))
    assert all(result.success for result in results)
    assert sorted(await descriptions(executor)) == texts


def foreign_server(release: asyncio.Event | None = None) -> MCPServer[Any]:
    """A server without result envelopes and without an operation ledger, some of whose tools misbehave."""
    server: MCPServer[Any] = MCPServer("stranger", log_level="ERROR")

    @server.tool()
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    async def stubborn() -> str:
        assert release is not None
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    @server.tool()
    async def cancelled() -> str:
        raise asyncio.CancelledError

    @server.tool()
    async def fails() -> str:
        raise ToolError("password is hunter2")

    @server.tool()
    async def crashes() -> str:
        raise RuntimeError("password is hunter2")

    @server.tool()
    async def protocol(code: int) -> str:
        raise MCPError(code=code, message="password is hunter2")

    @server.tool()
    async def text() -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="one"), TextContent(type="text", text="two")])

    @server.tool()
    async def structured() -> dict[str, Any]:
        return {"a": [1, 2]}

    @server.tool()
    async def envelope(success: bool, error_code: Any = None, data: Any = None) -> CallToolResult:
        outcome = {"success": success, "data": data, "error": "a\nb", "error_code": error_code}
        return CallToolResult(content=[], structured_content=outcome)

    @server.tool()
    async def asks() -> InputRequiredResult:
        form = ElicitRequestFormParams(message="who?", requested_schema={"type": "object", "properties": {}})
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)})

    @server.tool()
    async def beside(context: Context) -> dict[str, Any]:
        return dict(context.request_context.meta or {})

    return server


@pytest.mark.parametrize(
    ("tool", "arguments", "success", "code", "data"),
    [
        ("text", {}, True, None, {"text": "one\ntwo"}),
        ("structured", {}, True, None, {"a": [1, 2]}),
        ("envelope", {"success": True, "data": [1]}, True, None, [1]),
        ("envelope", {"success": True, "data": 7}, False, "UNKNOWN_ERROR", None),
        ("envelope", {"success": False, "error_code": "NOT_FOUND"}, False, "NOT_FOUND", None),
        ("envelope", {"success": False, "error_code": "ODD"}, False, "TOOL_EXECUTION_ERROR", None),
        ("fails", {}, False, "TOOL_EXECUTION_ERROR", {"server_text": "Error executing tool fails: password is hunter2"}),
        ("crashes", {}, False, "TOOL_EXECUTION_ERROR", {"server_text": "Error executing tool crashes"}),
        ("nobodys", {}, False, "TOOL_EXECUTION_ERROR", {"server_text": "Unknown tool: nobodys"}),
        ("protocol", {"code": -32602}, False, "TOOL_EXECUTION_ERROR", {"server_text": "password is hunter2"}),
        ("protocol", {"code": -32603}, False, "TOOL_EXECUTION_ERROR", {"server_text": "password is hunter2"}),
        ("protocol", {"code": -32000}, False, "TOOL_EXECUTION_ERROR", {"server_text": "password is hunter2"}),
        ("protocol", {"code": 1}, False, "TOOL_EXECUTION_ERROR", {"server_text": "password is hunter2"}),
        ("cancelled", {}, False, "UNKNOWN_ERROR", None),
        ("asks", {}, False, "TOOL_EXECUTION_ERROR", None),
    ],
)
async def test_every_answer_of_a_third_party_server_becomes_a_result(
    tool: str, arguments: dict[str, Any], success: bool, code: str | None, data: Any
) -> None:
    async with McpToolExecutor(foreign_server(), timeout=30) as executor:
        result = await executor.execute(permitted(tool, arguments, "ann"))
        assert (result.success, result.error_code, result.data) == (success, code, data)
        assert "hunter2" not in str(result.error)
        assert "\n" not in str(result.error)
        assert await executor.ready()


async def test_a_tool_that_hangs_ends_at_the_deadline_as_unknown() -> None:
    async with McpToolExecutor(foreign_server()) as executor:
        result = await executor.execute(permitted("hang", {}, "ann"), deadline=1.0)
        assert (result.error_code, result.unknown) == (ToolErrorCode.TIMEOUT_ERROR, True)
        assert result.duration_ms >= 900
        assert (await executor.execute(permitted("text", {}, "ann"))).success


async def test_the_limit_of_the_server_holds_also_before_a_later_deadline() -> None:
    async with McpToolExecutor(foreign_server(), timeout=1.0, start_timeout=60) as executor:
        result = await executor.execute(permitted("hang", {}, "ann"), deadline=3600)
        assert (result.error_code, result.unknown) == (ToolErrorCode.TIMEOUT_ERROR, True)


async def test_even_a_tool_that_refuses_to_be_cancelled_ends_at_the_deadline() -> None:
    release = asyncio.Event()
    async with McpToolExecutor(foreign_server(release)) as executor:
        result = await executor.execute(permitted("stubborn", {}, "ann"), deadline=1.0)
        assert result.error_code is ToolErrorCode.TIMEOUT_ERROR
        release.set()


async def test_a_call_without_time_left_is_not_sent(executor: McpToolExecutor) -> None:
    result = await executor.execute(permitted("add_task", {"description": "a"}, "ann"), deadline=0)
    assert (result.error_code, result.unknown) == (ToolErrorCode.TOOL_EXECUTION_ERROR, False)
    assert await descriptions(executor) == []


async def test_cancellation_of_the_caller_is_raised() -> None:
    async with McpToolExecutor(foreign_server()) as executor:
        call = asyncio.create_task(executor.execute(permitted("hang", {}, "ann")))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await executor.execute(permitted("text", {}, "ann"))).success


async def test_user_and_operation_are_sent_as_request_metadata() -> None:
    async with McpToolExecutor(foreign_server()) as executor:
        beside = await executor.execute(permitted("beside", {}, "ann", "k"))
        assert isinstance(beside.data, dict)
        assert beside.data["graph_agent/user"] == "ann"
        assert beside.data["graph_agent/operation"] == {"key": "k", "mode": "run"}


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_change_names_its_attempt_so_that_a_server_can_fence(trusted: bool) -> None:
    async with McpToolExecutor(foreign_server(), trusted=trusted) as executor:
        change = await executor.execute(permitted("beside", {}, "ann", "k").as_sent(2))
        read = await executor.execute(permitted("beside", {}, "ann"))
    assert isinstance(change.data, dict)
    assert isinstance(read.data, dict)
    assert change.data["graph_agent/attempt"] == {"decision": "d", "sequence": 1, "attempt": 2}
    assert "graph_agent/attempt" not in read.data


async def test_a_server_without_a_ledger_is_never_asked_to_settle() -> None:
    async with McpToolExecutor(foreign_server()) as executor:
        assert (await executor.settle(permitted("structured", {}, "ann", "k"))).unknown


async def test_an_unusable_settlement_leaves_the_outcome_unknown(tasks: Database) -> None:
    async with McpToolExecutor(build_task_server(tasks)) as executor:
        await tasks.close()
        failed = await executor.execute(permitted("add_task", {"description": "a"}, "ann", "k"))
        assert (failed.error_code, failed.unknown) == (ToolErrorCode.DATABASE_ERROR, False)
        assert (await executor.settle(permitted("add_task", {"description": "a"}, "ann", "k"))).unknown


async def test_a_session_opens_itself_on_the_first_call(tasks: Database) -> None:
    executor = McpToolExecutor(build_task_server(tasks))
    assert (await executor.execute(permitted("add_task", {"description": "a"}, "ann"))).success
    await executor.aclose()
    assert await descriptions(executor) == ["a"]
    await executor.aclose()
    await executor.aclose()


def test_an_executor_can_be_used_from_one_loop_after_another(sqlite_url: str) -> None:
    database = Database.open(sqlite_url)
    migrate(database, "graph_agent.task_server")
    executor = McpToolExecutor(build_task_server(database))
    for number in range(3):
        assert asyncio.run(executor.execute(permitted("add_task", {"description": str(number)}, "ann"))).success
    assert asyncio.run(descriptions(executor)) == ["2", "1", "0"]
    database.close_now()


async def test_closing_leaves_no_task_running(tasks: Database) -> None:
    before = asyncio.all_tasks()
    async with McpToolExecutor(build_task_server(tasks)) as executor:
        await descriptions(executor)
    assert asyncio.all_tasks() == before


async def test_a_missing_command_is_not_ready_and_calls_are_not_sent() -> None:
    executor = McpToolExecutor(StdioServerParameters(command="/no/such/command"))
    assert not await executor.start()
    assert not await executor.ready()
    result = await executor.execute(permitted("add_task", {"description": "a"}, "ann", "k"))
    assert (result.error_code, result.unknown) == (ToolErrorCode.TOOL_UNAVAILABLE, False)
    assert (await executor.settle(permitted("add_task", {"description": "a"}, "ann", "k"))).unknown
    assert (await executor.preview("delete_task", {}, "ann")).error_code is ToolErrorCode.TOOL_UNAVAILABLE
    await executor.aclose()


async def pid(executor: McpToolExecutor) -> int:
    result = await executor.execute(permitted("pid", {}, "ann"))
    assert isinstance(result.data, dict), result
    found: int = result.data["pid"]
    return found


async def test_a_server_process_that_dies_during_a_call_is_unknown_and_is_restarted() -> None:
    async with McpToolExecutor(script("foreign_server.py"), timeout=30) as executor:
        first = await pid(executor)
        waiting = asyncio.create_task(executor.execute(permitted("block", {}, "ann")))
        died = await executor.execute(permitted("die", {}, "ann"))
        assert [died.error_code, (await waiting).error_code] == [ToolErrorCode.UNKNOWN_ERROR] * 2
        assert await pid(executor) != first


async def test_a_server_process_that_dies_between_calls_fails_no_call() -> None:
    async with McpToolExecutor(script("foreign_server.py"), timeout=30) as executor:
        first = await pid(executor)
        os.kill(first, signal.SIGKILL)
        while executor.connected:  # noqa: ASYNC110 (the server is another process)
            await asyncio.sleep(0.01)
        assert await pid(executor) != first


@pytest.mark.parametrize("then", ["execute", "settle"])
async def test_kill_9_between_effect_and_reply_and_the_same_key_again_make_one_task(
    sqlite_url: str, tmp_path: Path, then: str
) -> None:
    async with McpToolExecutor(
        script("crashing_process.py", sqlite_url, str(tmp_path / "mark")), timeout=30, trusted=True
    ) as executor:
        lost = await executor.execute(permitted("add_task", {"description": "a"}, "ann", "k"))
        assert lost.unknown
        again = await getattr(executor, then)(permitted("add_task", {"description": "a"}, "ann", "k"))
        assert again.success
        assert again.data["preview"] == "a"
        assert await descriptions(executor) == ["a"]


@asynccontextmanager
async def served(tasks: Database, port: int = 0) -> AsyncIterator[str]:
    """Serve the task server over HTTP on a loopback port and yield its URL."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    # A client that connects early waits in the accept queue.
    listener.listen()
    app = build_task_server(tasks).streamable_http_app(json_response=True)
    server = ServerWithoutSignals(HttpServerConfig(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1))
    # In a thread, because a server in the client's event loop could not close the connection during a call.
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await asyncio.to_thread(thread.join)
        listener.close()


async def test_the_same_calls_work_over_http(tasks: Database) -> None:
    async with served(tasks) as url, McpToolExecutor(url, trusted=True) as executor:
        added = await executor.execute(permitted("add_task", {"description": "a"}, "ann", "k"))
        assert isinstance(added.data, dict)
        results = await asyncio.gather(*(executor.execute(permitted("list_tasks", {}, "ann")) for _ in range(20)))
        assert {str(result.data) for result in results} == {str(results[0].data)}
        assert await descriptions(executor) == ["a"]
        previewed = await executor.preview("delete_task", {"task_id": added.data["task"]["id"]}, "ann")
        assert previewed.data == {"description": "a", "status": "pending"}


async def test_a_server_that_goes_away_comes_back_without_a_restart(tasks: Database) -> None:
    [port] = free_ports(1)
    async with served(tasks, port) as url:
        clock = ManualClock()
        executor = McpToolExecutor(url, timeout=60, clock=clock, trusted=True)
        assert await executor.ready()
    assert not await executor.ready()
    assert not (await executor.execute(permitted("add_task", {"description": "a"}, "ann", "k"))).success
    clock.advance(minutes=1)  # the longest back-off
    async with served(tasks, port):
        assert await executor.ready()
        assert (await executor.execute(permitted("add_task", {"description": "a"}, "ann", "k2"))).success
        await executor.aclose()


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
async def test_a_foreign_host_or_origin_is_refused(tasks: Database, headers: dict[str, str]) -> None:
    async with served(tasks) as url, httpx.AsyncClient(timeout=60) as client:
        accepts = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        response = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers={**accepts, **headers})
        assert response.status_code in (403, 421)

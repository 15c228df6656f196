"""Hostile servers over stdio, HTTP and in process: every call ends in time with a correct result."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, ResourceLink

from graph_agent.cli.runtime import progress_line
from graph_agent.errors import ToolErrorCode
from graph_agent.graph.transcript import result_json
from graph_agent.models.result_size import LEFT_OUT, MAX_KEPT_BYTES
from graph_agent.models.tools import ToolResult
from graph_agent.tools import answers, lists, session, transport
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.progress import ToolProgress, progress_to
from tests.permission import permitted

HERE = Path(__file__).parent
PASSWD_DIGEST = hashlib.sha256(b"file:///etc/passwd").hexdigest()


@asynccontextmanager
async def hostile(what: str, *arguments: str, seconds: float = 120) -> AsyncIterator[McpToolExecutor]:
    """Yield an executor for a hostile server over stdio. At the end every session and its child process must have ended."""
    before = asyncio.all_tasks()
    server = StdioServerParameters(command=sys.executable, args=["-IS", str(HERE / "hostile.py"), what, *arguments])
    try:
        async with McpToolExecutor(server, timeout=seconds) as opened:
            yield opened
    finally:
        while left := asyncio.all_tasks() - before:
            await asyncio.wait(left)


@pytest.mark.parametrize(
    "what",
    [
        "hangs up",
        "dies at the greeting",
        "speaks an unknown version",
        "dies at the list",
    ],
)
async def test_a_server_with_an_invalid_tool_list_is_not_used(what: str) -> None:
    async with hostile(what) as executor:
        assert executor.get_available_tools() == []
        assert not await executor.ready()
        result = await executor.execute(permitted("act", {}, "ann", "k"))
        assert (result.error_code, result.unknown) == (ToolErrorCode.TOOL_UNAVAILABLE, False)


@pytest.mark.parametrize(
    ("what", "used"), [("lists a schema that is none", []), ("lists an unusable tool beside a good one", ["act"])]
)
async def test_a_tool_with_an_unusable_definition_is_left_out_with_a_warning(
    what: str, used: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with hostile(what) as executor:
        assert (executor.get_available_tools(), await executor.ready()) == (used, True)
        assert "whose definition is not valid: it is left out" in caplog.text


OBJECT: dict[str, Any] = {"type": "object"}


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"inputSchema": {**OBJECT, "properties": {"a": "string"}}}, "the property 'a' in its inputSchema must be a schema"),
        ({"inputSchema": {**OBJECT, "properties": {"a": None}}}, "must be a schema, and is null"),
        ({"inputSchema": {**OBJECT, "properties": {"a": ["string"]}}}, "must be a schema, and is a list"),
        ({"inputSchema": {**OBJECT, "required": True}}, "required in its inputSchema must be a list of names"),
        ({"inputSchema": {**OBJECT, "required": [7]}}, "required in its inputSchema must be a list of names"),
        ({"inputSchema": {"type": "array"}}, "its inputSchema must have the type object"),
        ({"inputSchema": {"type": ["object", "null"]}}, "its inputSchema must have the type object"),
        ({"inputSchema": 7}, "must be a JSON Schema of type object, and is a number"),
        ({}, "must be a JSON Schema of type object, and is null"),
        ({"inputSchema": OBJECT, "execution": {"taskSupport": "required"}}, "it runs only as a task, which is not supported"),
        ({"inputSchema": OBJECT, "title": 7}, "title in its definition does not fit the protocol"),
        ({"inputSchema": OBJECT, "description": ["a"]}, "description in its definition does not fit the protocol"),
    ],
)
async def test_a_bad_definition_costs_its_tool_alone_and_the_warning_says_why(
    definition: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hostile("lists a definition beside a good one", json.dumps(definition)) as executor:
        assert (executor.get_available_tools(), executor.failure) == (["act"], None)
        assert reason in executor.left_out["bad"]
        assert (await executor.execute(permitted("act", {}, "ann"))).success
    assert "the tool 'bad', whose " in caplog.text
    assert reason in caplog.text


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, OBJECT),
        ({"properties": {"a": {}}}, {**OBJECT, "properties": {"a": {}}}),
        ({"type": ["object"]}, OBJECT),
        ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}, {**OBJECT, "properties": {"a": {"type": "string"}}}),
        ({**OBJECT, "properties": []}, {**OBJECT, "properties": {}}),
        ({**OBJECT, "properties": None, "required": None}, {**OBJECT, "properties": {}}),
        ({**OBJECT, "$schema": 7}, OBJECT),
        (
            {**OBJECT, "properties": {"a": {"type": "string", "required": True}, "b": {"required": False}}},
            {**OBJECT, "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
        ),
        # A property may have the name of a keyword.
        (
            {**OBJECT, "properties": {"required": {"type": "INTEGER"}}},
            {**OBJECT, "properties": {"required": {"type": "integer"}}},
        ),
    ],
)
async def test_a_slip_that_every_client_accepts_is_accepted(given: dict[str, Any], read: dict[str, Any]) -> None:
    async with hostile("lists a definition beside a good one", json.dumps({"inputSchema": given})) as executor:
        assert [tool.parameters for tool in executor.declarations() if tool.name == "bad"] == [read]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "integer"}}},
        {"type": "array", "items": {}},
        {**OBJECT, "properties": {"a": "integer"}},
        {**OBJECT, "$ref": "#"},
        {**OBJECT, "properties": {"a": {"pattern": "("}}},
        "any",
        7,
    ],
)
async def test_a_bad_output_schema_costs_the_check_and_not_the_tool(schema: Any) -> None:
    definition = json.dumps({"inputSchema": OBJECT, "outputSchema": schema})
    async with hostile("lists a definition beside a good one", definition) as executor:
        assert executor.get_available_tools() == ["bad", "act"]
        # Without structured content a checked result would not be used.
        checked = schema == {"properties": {"a": {"type": "integer"}}}
        assert (await executor.execute(permitted("bad", {}, "ann"))).success is not checked


async def test_half_an_emoji_is_read_as_a_replacement_character() -> None:
    async with hostile("answers with half an emoji") as executor:
        result = await executor.execute(permitted("act", {}, "ann"))
    assert result.data == {"half \ufffd": "\ufffd"}
    assert result.content[1].size == len("\ufffd \U0001d54f \\ud835".encode())
    async with hostile("describes with half an emoji") as executor:
        assert [tool.description for tool in executor.declarations()] == ["acts \ufffd"]


async def test_an_empty_cursor_ends_the_list() -> None:
    async with hostile("ends with an empty cursor") as executor:
        assert (executor.get_available_tools(), executor.failure) == (["act"], None)


async def test_a_tool_whose_name_could_write_a_line_of_its_own_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hostile("lists names of several lines") as executor:
        assert executor.get_available_tools() == ["act"]
    assert caplog.text.count("whose name is no line of plain text: it is left out") == 3
    assert "\nline 9" not in caplog.text


@pytest.mark.parametrize("what", ["says nothing", "never greets", "never lists", "lists a schema without ground"])
async def test_a_server_that_does_not_initialize_is_abandoned_in_time(what: str) -> None:
    async with hostile(what, seconds=2) as executor:
        result = await executor.execute(permitted("act", {}, "ann"), deadline=0.2)
        assert (result.error_code, result.unknown) == (ToolErrorCode.TOOL_UNAVAILABLE, False)


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("answers twice", {"text": "first"}),
        ("answers another first", {"text": "yours"}),
        ("answers with every kind", {"text": "one\nroot"}),
        ("says one thing and means another", {"deleted": 2}),
        ("talks nonsense first", {"text": "after all"}),
        # The only request that a server may send is a ping.
        ("asks before it answers", {"granted": [1004]}),
        ("cancels the call", {"text": "done"}),
        ("floods with news", {"text": "after the flood"}),
    ],
)
async def test_unusual_content_is_returned_as_data(what: str, data: dict[str, Any]) -> None:
    async with hostile(what) as executor:
        assert (await executor.execute(permitted("act", {}, "ann"))).data == data
        assert await executor.ready()


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("dies in the call", "UNKNOWN_ERROR"),
        ("answers with an odd result", "UNKNOWN_ERROR"),
        ("answers not a number", "UNKNOWN_ERROR"),
        ("promises another output", "UNKNOWN_ERROR"),
        ("promises a structured output", "UNKNOWN_ERROR"),
    ],
)
async def test_an_unusable_answer_is_a_failure_without_server_text(what: str, code: str) -> None:
    async with hostile(what) as executor:
        result = await executor.execute(permitted("act", {}, "ann"))
        assert (result.success, result.error_code, result.data) == (False, code, None)
        assert await executor.ready()


@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32002, 1])
async def test_an_error_answer_has_the_text_of_the_server_and_leaves_the_connection_open(code: int) -> None:
    async with hostile("errs", str(code), "no board 'Q3': choose one of Q1, Q2") as executor:
        for _ in range(2):
            read = await executor.execute(permitted("act", {}, "ann"))
            change = await executor.execute(permitted("act", {}, "ann", "k"))
            assert read.data == change.data == {"server_text": "no board 'Q3': choose one of Q1, Q2"}
            assert (read.error_code, change.error_code) == ("TOOL_EXECUTION_ERROR", "TOOL_REPORTED_FAILURE")
            assert result_json(change)["data"] == change.data
        assert executor.connected


@pytest.mark.parametrize("code", [-32000, -32600])
async def test_the_error_of_one_call_does_not_end_the_call_of_another_user(code: int) -> None:
    async with hostile("errs while another call runs", str(code)) as executor:
        bob, ann = await asyncio.gather(
            executor.execute(permitted("act", {}, "bob")), executor.execute(permitted("act", {}, "ann"))
        )
    assert {str(bob.data), str(ann.data)} == {"{'text': 'the other call'}", "{'server_text': \"no board 'Q3'\"}"}


@pytest.mark.parametrize(("progress", "nothing_done"), [((), True), (("after progress",), False)])
async def test_a_trusted_server_proves_by_a_code_that_nothing_was_done_until_it_has_reported_progress(
    progress: tuple[str, ...], nothing_done: bool
) -> None:
    arguments = ["-IS", str(HERE / "hostile.py"), "errs", "-32602", "no such board", *progress]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    async with McpToolExecutor(server, timeout=120, trusted=True) as executor:
        with progress_to(lambda _: None):
            result = await executor.execute(permitted("act", {}, "ann", "k"))
    assert (result.unknown, "nothing was done" in str(result.error)) == (not nothing_done, nothing_done)
    assert result.data == {"server_text": "no such board"}


@pytest.mark.parametrize("what", ["never answers", "answers only another", "answers without ground"])
async def test_a_call_without_an_answer_is_unknown_at_the_deadline(what: str) -> None:
    async with hostile(what) as executor:
        result = await executor.execute(permitted("act", {}, "ann"), deadline=0.5)
        assert (result.error_code, result.unknown) == (ToolErrorCode.TIMEOUT_ERROR, True)
        assert await executor.ready()


@pytest.mark.parametrize(
    ("answer", "data"),
    [
        ({}, {"text": ""}),
        (None, {"text": ""}),
        ({"content": None}, {"text": ""}),
        ({"structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": None, "structuredContent": {"a": 1}}, {"a": 1}),
        ([1], None),
        ("done", None),
        ({"content": "done"}, None),
        ({"task": {"taskId": "1"}}, None),
    ],
)
async def test_a_missing_content_is_an_empty_one_and_what_is_no_result_ends_the_call_at_once(answer: Any, data: Any) -> None:
    async with hostile("answers with these", json.dumps(answer)) as executor:
        result = await executor.execute(permitted("act", {}, "ann"))
        assert (result.success, result.data) == (data is not None, data)
        assert await executor.ready()


def part(text: str, *audience: str) -> dict[str, Any]:
    return {"type": "text", "text": text, **({"annotations": {"audience": audience}} if audience else {})}


async def test_a_part_for_the_user_is_not_for_the_model_and_the_other_way_round() -> None:
    link = {"type": "resource_link", "uri": "https://shop/once", "name": "link", "annotations": {"audience": ["user"]}}
    answer = {"content": [part("both"), part("for the user", "user"), link, part("for all", "user", "assistant")]}
    async with hostile("answers with these", json.dumps(answer)) as executor:
        result = await executor.execute(permitted("act", {}, "ann"))
    assert result_json(result) == {"success": True, "data": {"text": "both\nfor all"}}
    assert (result.for_user, result.model_only) == ("for the user\nhttps://shop/once", False)
    answer = {"content": [part("both"), part("for the model", "assistant")]}
    async with hostile("answers with these", json.dumps(answer)) as executor:
        result = await executor.execute(permitted("act", {}, "ann"))
    assert result_json(result) == {"success": True, "data": {"text": "both\nfor the model"}}
    assert (result.for_user, result.model_only) == ("both", True)


async def test_content_is_recorded_by_kind_type_size_and_digest_and_the_model_reads_text_and_links() -> None:
    async with hostile("answers with every kind") as executor:
        result = await executor.execute(permitted("act", {}, "ann"))
    hi = hashlib.sha256(b"hi").hexdigest()
    assert [item.to_json() for item in result.content] == [
        {"kind": "text", "type": "text/plain", "size": 3, "sha256": hashlib.sha256(b"one").hexdigest()},
        {"kind": "image", "type": "image/png", "size": 2, "sha256": hi},
        {"kind": "audio", "type": "audio/wav", "size": 2, "sha256": hi},
        {"kind": "link", "size": 9, "sha256": PASSWD_DIGEST, "uri": "file:///etc/passwd", "name": "file‹U+202E›"},
        {
            "kind": "resource",
            "type": "text/plain",
            "size": 4,
            "sha256": hashlib.sha256(b"root").hexdigest(),
            "uri": "file:///etc/passwd",
        },
        {"kind": "resource", "type": "x/y", "size": 2, "sha256": hi, "uri": "file:///bin/sh"},
    ]
    assert ToolResult.model_validate(result.to_json()) == result
    assert result_json(result) == {
        "success": True,
        "data": {"text": "one\nroot"},
        "content": [
            "image: image/png, 2 bytes",
            "audio: audio/wav, 2 bytes",
            "link: file:///etc/passwd, file‹U+202E›, 9 bytes",
            "resource: file:///etc/passwd, text/plain, 4 bytes",
            "resource: file:///bin/sh, x/y, 2 bytes",
        ],
    }


def test_thousands_of_blocks_are_recorded_and_noted_within_limits() -> None:
    links: list[Any] = [ResourceLink(uri=f"file:///{n}/{'x' * 600}", name="n") for n in range(3_000)]
    result = answers.from_answer(CallToolResult(content=links))
    assert (len(result.content), result.content[-1].name) == (101, "2900 more")
    notes = result_json(result)["content"]
    assert sum(map(len, notes)) < 2_100
    assert notes[-1] == "and 98 more"


async def test_progress_is_shown_and_extends_no_deadline() -> None:
    seen: list[ToolProgress] = []
    async with hostile("reports progress without an answer") as executor:
        # A slow machine may not receive all of it before one deadline.
        while len(seen) < 3:
            seen.clear()
            with progress_to(seen.append):
                result = await executor.execute(permitted("act", {}, "ann"), deadline=2)
            assert result.error_code is ToolErrorCode.TIMEOUT_ERROR
        assert seen == [ToolProgress(done, 3) for done in (1, 2, 3)]
        assert progress_line(seen[0]) == "progress: 1 of 3"


async def test_a_call_that_is_given_up_is_cancelled_at_the_server() -> None:
    async with hostile("waits until it is cancelled") as executor:
        while not (result := await executor.execute(permitted("act", {}, "ann"), deadline=0.5)).success:
            assert result.error_code is ToolErrorCode.TIMEOUT_ERROR
    assert isinstance(result.data, dict)
    assert result.data["cancelled"]
    assert result.data["now"] not in result.data["cancelled"]


async def test_a_tool_that_asks_the_user_or_the_model_is_told_that_this_is_not_supported() -> None:
    async with hostile("elicits") as executor:
        result = await executor.execute(permitted("act", {}, "ann"))
        assert result.data == {"answers": ["Elicitation not supported", "Sampling not supported"]}


async def test_a_url_that_a_server_sends_the_user_to_is_never_followed() -> None:
    followed: list[bytes] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        followed.append(await reader.read(100))
        writer.close()

    web = await asyncio.start_server(connected, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}/sign-in"
    async with web, hostile("elicits by a URL", url) as executor:
        read = await executor.execute(permitted("act", {}, "ann"))
        change = await executor.execute(permitted("act", {}, "ann", "k"))
    assert (read, change) == (
        answers.INPUT_REQUIRED.replace(duration_ms=read.duration_ms),
        answers.CHANGE_NEEDS_INPUT.replace(duration_ms=change.duration_ms),
    )
    assert (read.unknown, change.unknown) == (False, True)
    assert url not in str(read) + str(change)
    assert followed == []


@pytest.mark.parametrize("what", ["changes", "pings", "answers to nothing"])
async def test_a_flood_of_messages_closes_the_connection(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The real limit takes many thousands of messages.
    monkeypatch.setattr(session, "MAX_RECEIVED", 200)
    async with hostile(f"floods with {what}") as executor:
        assert (await executor.execute(permitted("act", {}, "ann"))).error_code is ToolErrorCode.UNKNOWN_ERROR
        assert await executor.ready()


async def test_a_very_long_answer_keeps_its_beginning() -> None:
    async with hostile("answers at great length") as executor:
        data = (await executor.execute(permitted("act", {}, "ann"))).data
        assert isinstance(data, dict)
        assert len(data["text"]) < MAX_KEPT_BYTES
        assert data[LEFT_OUT]["bytes"] == 5_000_011


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("lists thousands", "its list of tools is too long"),
        ("lists without end", "its list of tools does not end"),
        ("lists one name twice", "it serves two tools of one name"),
        ("lists a large schema", "its list of tools is too large"),
        ("repeats a cursor", "its list of tools does not end: a cursor comes again"),
    ],
)
async def test_a_rejected_tool_list_is_logged_without_server_text(
    what: str, why: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real limit takes many megabytes.
    monkeypatch.setattr(lists, "MAX_LIST_BYTES", 1_000_000)
    async with hostile(what) as executor:
        assert executor.get_available_tools() == []
    lines = [record.getMessage() for record in caplog.records if record.name == session.logger.name]
    assert lines == [f"the connection to the MCP server failed ({why})"]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


async def test_data_that_is_not_json_from_an_in_process_server_is_unusable() -> None:
    server: MCPServer[Any] = MCPServer("near", log_level="ERROR")

    @server.tool()
    async def act() -> CallToolResult:
        return CallToolResult(content=[], structured_content=nested(5000))

    async with McpToolExecutor(server, timeout=120) as executor:
        result = await executor.execute(permitted("act", {}, "ann"))
        assert not result.success
        change = await executor.execute(permitted("act", {}, "ann", "k"))
        assert (change.success, change.unknown) == (False, True)
        assert ToolResult.model_validate(change.to_json()) == change


class Trickling(httpx2.AsyncByteStream):
    """A body that arrives one byte at a time."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for byte in self._body:
            yield bytes([byte])


@pytest.mark.parametrize(
    ("headers", "body", "too_large"),
    [
        ({"Content-Type": "application/json"}, b"x" * 100, False),
        ({"Content-Type": "application/json"}, b"x" * 101, True),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, b"x", True),
        ({"Content-Type": "application/json"}, b"[[],[],[],[]]", True),
        # An event stream has no end; each event is limited.
        ({"Content-Type": "text/event-stream"}, b"data: [1,2]\r\n\r\n" * 9, False),
        ({"Content-Type": "text/event-stream"}, b"data: \n" * 20, True),
    ],
)
async def test_the_size_of_an_http_answer_is_limited(
    headers: dict[str, str], body: bytes, too_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real limit takes many megabytes.
    monkeypatch.setattr(transport, "MAX_MESSAGE_BYTES", 100)
    wire = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, stream=Trickling(body)))
    async with transport.size_limited_client(transport.HttpServer("http://127.0.0.1/mcp"), wire) as client:
        if too_large:
            with pytest.raises(httpx2.HTTPError):
                await client.get("http://127.0.0.1/mcp")
        else:
            assert (await client.get("http://127.0.0.1/mcp")).content == body

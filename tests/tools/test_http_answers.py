"""Answers of a server over HTTP, byte by byte: what each call learns, and what becomes of the calls of others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.transport import HttpServer
from tests.permission import permitted

TOOL = {"name": "act", "description": "acts", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
HALF = (
    b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":'
    b'{"a":"\\ud835","b":"\\ud835\\udd4f","c":"\\\\ud835"}}}'
)


def response(status: int, body: bytes, content_type: str = "application/json", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def said(request: dict[str, Any], **answer: Any) -> bytes:
    return response(200, json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode())


class RawServer:
    """Answers each `tools/call` with the bytes of `on_call(request)`, piece by piece; b"" ends the connection."""

    def __init__(self, on_call: Callable[[dict[str, Any]], list[bytes]]) -> None:
        self.on_call = on_call
        self.sessions = 0
        self.known: set[str] = set()
        self.release = asyncio.Event()
        """Calls with `n` = 1 wait for it."""
        self.waiting = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                headers = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if ": " in line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                for piece in await self.answer(json.loads(body) if body else {}, headers.get("mcp-session-id")):
                    if not piece:
                        return
                    writer.write(piece)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, request: dict[str, Any], session: str | None) -> list[bytes]:
        match request.get("method"):
            case "initialize":
                self.sessions += 1
                self.known.add(str(self.sessions))
                result = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "x", "version": "1"},
                }
                body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
                return [response(200, body, "application/json", f"Mcp-Session-Id: {self.sessions}")]
            case "tools/list":
                return [said(request, result={"tools": [TOOL]})]
            case "tools/call" if session not in self.known:
                return [response(404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')]
            case "tools/call" if request["params"]["arguments"].get("n") == 1:
                self.waiting.set()
                await self.release.wait()
                return [said(request, result={"content": [], "structuredContent": {"n": 1}})]
            case "tools/call":
                return self.on_call(request)
            case _ if "id" in request:
                return [said(request, error={"code": -32601, "message": "no such method"})]
            case _:
                return [response(202 if request else 405, b"")]


@asynccontextmanager
async def serving(on_call: Callable[[dict[str, Any]], list[bytes]]) -> AsyncIterator[tuple[RawServer, McpToolExecutor]]:
    raw = RawServer(on_call)
    listener = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    async with McpToolExecutor(HttpServer(url), timeout=60) as executor:
        yield raw, executor
    listener.close()


def chunked(body: bytes, content_type: str) -> list[bytes]:
    """Return a response whose chunks are single bytes."""
    head = f"HTTP/1.1 200 X\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return [head, *(b"1\r\n%c\r\n" % byte for byte in body), b"0\r\n\r\n"]


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_half_an_emoji_is_read_as_a_replacement_character(content_type: str, in_pieces: bool) -> None:
    def half(request: dict[str, Any]) -> list[bytes]:
        body = HALF % request["id"]
        body = body if content_type == "application/json" else b"event: message\r\ndata: %s\r\n\r\n" % body
        return chunked(body, content_type) if in_pieces else [response(200, body, content_type)]

    async with serving(half) as (_, executor):
        result = await executor.execute(permitted("act", {}, "ann"))
    assert result.data == {"a": "\ufffd", "b": "\U0001d54f", "c": "\\ud835"}


async def test_bytes_that_are_no_text_are_read_as_replacement_characters() -> None:
    def bytes_of(request: dict[str, Any]) -> list[bytes]:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":"\xed\xa0\xb5 \xff \xc3\xa4"}}}'
        return [response(200, body % request["id"])]

    async with serving(bytes_of) as (_, executor):
        result = await executor.execute(permitted("act", {}, "ann"))
    assert result.data == {"a": "\ufffd\ufffd\ufffd \ufffd ä"}


def error(status: int, code: int) -> Callable[[dict[str, Any]], list[bytes]]:
    def err(request: dict[str, Any]) -> list[bytes]:
        answer = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no board 'Q3'"}}
        return [response(status, json.dumps(answer).encode())]

    return err


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("code", [-32600, -32602, -32603, -32000, -32001, 7])
async def test_an_error_answer_has_the_text_of_the_server_and_ends_no_session(status: int, code: int) -> None:
    async with serving(error(status, code)) as (raw, executor):
        for _ in range(2):
            change = await executor.execute(permitted("act", {}, "ann", "k"))
            assert (change.data, change.unknown) == ({"server_text": "no board 'Q3'"}, True)
            assert change.error_code == "TOOL_REPORTED_FAILURE"
        assert raw.sessions == 1


OTHER_ENDS: dict[str, list[bytes]] = {
    "a connection that ends before the answer": [b""],
    "half an answer": [b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{", b""],
    "bytes that are not HTTP": [b"\x00\x01\r\n\r\n", b""],
    "no JSON": [response(200, b"<html>")],
    "a page": [response(200, b"<html>", "text/html")],
    "an error of HTTP": [response(500, b"<html>", "text/html")],
    "another status 404": [response(404, b"", "text/plain")],
    "no credentials": [response(401, b"")],
    "nothing": [response(202, b"")],
    "a redirect": [response(307, b"", "text/plain", "Location: http://127.0.0.1:9/other")],
    "an event stream that ends": [response(200, b": nothing\n\n", "text/event-stream")],
}


@pytest.mark.parametrize("what", OTHER_ENDS)
async def test_a_call_without_a_usable_answer_is_unknown_and_does_not_end_the_call_of_another_user(what: str) -> None:
    async with serving(lambda _: OTHER_ENDS[what]) as (raw, executor):
        other = asyncio.create_task(executor.execute(permitted("act", {"n": 1}, "bob", "b"), deadline=60))
        await raw.waiting.wait()
        ended = await executor.execute(permitted("act", {}, "ann", "a"))
        assert (ended.unknown, ended.error_code, ended.data) == (True, "UNKNOWN_ERROR", None)
        assert "nothing was done" not in str(ended.error)
        # The next call is made too, where necessary over a new session.
        raw.on_call = lambda request: [said(request, result={"content": [], "structuredContent": {"n": 2}})]
        assert (await executor.execute(permitted("act", {}, "ann"))).data == {"n": 2}
        assert not other.done()
        raw.release.set()
        assert (await other).data == {"n": 1}


async def test_a_session_that_the_server_has_forgotten_costs_one_call() -> None:
    async with serving(lambda request: [said(request, result={"content": [], "structuredContent": {"n": 2}})]) as (
        raw,
        executor,
    ):
        raw.known.clear()
        first, second = [await executor.execute(permitted("act", {}, "ann", "k")) for _ in range(2)]
    assert (first.success, first.unknown) == (False, True)
    assert (second.data, raw.sessions) == ({"n": 2}, 2)

"""A loopback HTTP server that plays replies, byte by byte if necessary."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Writer = asyncio.StreamWriter
Reply = Callable[[Writer], Awaitable[bool]]
"""Writes one reply; returns true if the connection can be used again."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


@dataclass
class WireServer:
    """Plays `replies` in order, one per request, and repeats the last one."""

    replies: Sequence[Reply]
    requests: list[Request] = field(default_factory=list)
    url: str = ""
    busy: int = 0
    busiest: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            again = True
            while again:
                request = await _read(reader)
                self.requests.append(request)
                self.busy += 1
                self.busiest = max(self.busiest, self.busy)
                try:
                    again = await self.replies[min(len(self.requests), len(self.replies)) - 1](writer)
                finally:
                    self.busy -= 1
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client is gone
        finally:
            writer.close()


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[WireServer]:
    """Run a server on a free port of 127.0.0.1 while the context is open."""
    wire = WireServer(replies)
    connections: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: Writer) -> None:
        task = asyncio.create_task(wire.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=2**20)
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, raw)


def says(body: Any, status: int = 200, **headers: str) -> Reply:
    """Reply with `body` as JSON."""
    return sends(json.dumps(body).encode(), status, **headers)


def sends(body: bytes, status: int = 200, content_type: str = "application/json", **headers: str) -> Reply:
    """Reply with the bytes of `body`. In the names of headers `_` stands for `-`."""

    async def reply(writer: Writer) -> bool:
        writer.write(_head(status, len(body), content_type, headers) + body)
        await writer.drain()
        return True

    return reply


def drips(body: bytes, pause: float) -> Reply:
    """Reply byte by byte with pauses, so that a timeout that restarts with every byte never ends."""

    async def reply(writer: Writer) -> bool:
        writer.write(_head(200, len(body), "application/json", {}))
        for n in range(len(body)):
            writer.write(body[n : n + 1])
            await writer.drain()
            await asyncio.sleep(pause)
        return True

    return reply


def chunked(body: bytes, size: int) -> Reply:
    """Reply in chunks of `size` bytes, without a content length."""

    async def reply(writer: Writer) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    return reply


def late(seconds: float, then: Reply) -> Reply:
    """Wait, then reply with `then`."""

    async def reply(writer: Writer) -> bool:
        await asyncio.sleep(seconds)
        return await then(writer)

    return reply


def hangs(asked: asyncio.Event | None = None) -> Reply:
    """Never reply; set `asked` when the request has arrived."""

    async def reply(_writer: Writer) -> bool:
        if asked is not None:
            asked.set()
        await asyncio.get_running_loop().create_future()
        return False

    return reply


def closes() -> Reply:
    """Close the connection instead of replying."""

    async def reply(_writer: Writer) -> bool:
        return False

    return reply


def resets() -> Reply:
    """Reset the connection instead of replying."""

    async def reply(writer: Writer) -> bool:
        writer.transport.abort()
        return False

    return reply


def half(body: bytes, status: int = 200) -> Reply:
    """Send the headers and the first half of `body`, then close the connection."""

    async def reply(writer: Writer) -> bool:
        writer.write(_head(status, len(body), "application/json", {}) + body[: len(body) // 2])
        await writer.drain()
        return False

    return reply


def babbles(noise: bytes) -> Reply:
    """Send bytes that are not HTTP."""

    async def reply(writer: Writer) -> bool:
        writer.write(noise)
        await writer.drain()
        return False

    return reply


def _head(status: int, length: int, content_type: str, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {content_type}", f"content-length: {length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")

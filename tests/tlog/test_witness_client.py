"""Answers of a witness that are compressed, slow or long."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from graph_agent.tlog import witness
from graph_agent.tlog.note import KeyType, SigningKey
from graph_agent.tlog.witness import WitnessClient, WitnessError


@asynccontextmanager
async def answering(answer: Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[WitnessClient]:
    """Open a witness that answers each request, given its head, by `answer`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The client of a slow machine may reach its time limit before it has sent its request.
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await answer(await reader.readuntil(b"\r\n\r\n"), writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        answered.set()

    answered = asyncio.Event()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        key = SigningKey.generate("witness.example", KeyType.COSIGNATURE).verifier
        yield WitnessClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", key)
        await answered.wait()


async def test_an_answer_is_not_compressed_because_it_is_read_as_it_is_sent() -> None:
    async def compressed_if_accepted(head: bytes, writer: asyncio.StreamWriter) -> None:
        body, encoding = b"no checkpoint\n", b""
        if b"gzip" in head.lower():
            body, encoding = gzip.compress(body), b"Content-Encoding: gzip\r\n"
        writer.write(b"HTTP/1.1 404 Not Found\r\n%bContent-Length: %d\r\n\r\n%b" % (encoding, len(body), body))

    async with answering(compressed_if_accepted) as client:
        assert await client.latest("tasks.example/log", []) is None


async def test_an_answer_that_arrives_a_byte_at_a_time_ends_at_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # The real limit would make the test wait for ten seconds.
    monkeypatch.setattr(witness, "SECONDS", 0.3)
    gone = asyncio.Event()

    async def endless(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
        while not gone.is_set():
            writer.write(b"x")
            await asyncio.sleep(0.01)

    async with answering(endless) as client:
        with pytest.raises(WitnessError, match=r"witness\.example does not answer"):
            await client.latest("tasks.example/log", [])
        gone.set()


async def test_an_answer_that_is_too_long_is_refused() -> None:
    async def long(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000)

    async with answering(long) as client:
        with pytest.raises(WitnessError, match=r"the answer of witness\.example is too long"):
            await client.latest("tasks.example/log", [])

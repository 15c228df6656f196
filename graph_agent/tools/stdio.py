"""The stdio transport: a child process that reads and writes one JSON message on each line.

The SDK's own transport joins a long line again with every chunk, which stalls the event loop for seconds, and passes the whole
stderr of the process on. This one ends the connection at a line that is too long, and keeps only the end of stderr.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from mcp import StdioServerParameters
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from graph_agent.tools.json_text import well_formed

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 16 * 1024 * 1024
_VALUE_BYTES = 15
MAX_STDERR_BYTES = 4 * 1024
"""The end of stderr that is kept, to explain why a server has failed."""

_FLUSH_SECONDS = 0.5
EXIT_SECONDS = 2.0
"""The time that the process may take to exit after each of: its stdin is closed, SIGTERM, SIGKILL."""


@asynccontextmanager
async def stdio_transport(
    server: StdioServerParameters, on_stderr: Callable[[bytes], None] = lambda _: None
) -> AsyncIterator[tuple[Any, Any]]:
    """Start the command and yield the two streams of the SDK's client. On exit the process and its group are ended.

    `on_stderr` gets the end of stderr each time it grows. Raises OSError if the command cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=get_default_environment() | (server.env or {}),
        cwd=server.cwd,
        limit=MAX_LINE_BYTES,
        start_new_session=True,
    )
    to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_send, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    writer = asyncio.create_task(_write_lines(process, from_session, to_session))
    pumps = {
        writer,
        asyncio.create_task(_read_lines(process, to_session)),
        asyncio.create_task(_read_stderr(process, on_stderr)),
    }
    try:
        yield received, to_send
    finally:
        with anyio.CancelScope(shield=True):
            received.close()
            to_send.close()
            await asyncio.wait({writer}, timeout=_FLUSH_SECONDS)
            await _stop(process)
            # asyncio has no public way to close pipes that a child of the process still holds.
            process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for stream in (to_session, from_session):
                stream.close()


async def _read_lines(process: Process, to_session: Any) -> None:
    assert process.stdout is not None
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with to_session:
            while line := await _next_line(process.stdout):
                await to_session.send(_parse(line))
    # A process that cannot write does not read either, and would not see that its stdin is closed.
    while await process.stdout.read(65536):
        pass


def weight(data: bytes) -> int:
    """Return the size of JSON, in which each value counts more bytes: millions of short ones take seconds and gigabytes."""
    return len(data) + _VALUE_BYTES * sum(map(data.count, (b",", b"[", b"{")))


async def _next_line(stdout: asyncio.StreamReader) -> bytes:
    try:
        line = await stdout.readline()
        if weight(line) > MAX_LINE_BYTES:
            raise ValueError
        return line
    except ValueError:
        logger.warning("an MCP server wrote a line of more than %d bytes; its connection is closed", MAX_LINE_BYTES)
        return b""  # As at the end of the stream: the session sees that the connection has ended.


def _parse(line: bytes) -> SessionMessage | Exception:
    """Return the message on a line, or the error that the SDK's session reports for an invalid one."""
    text = well_formed(line.decode("utf-8", "replace"))
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return error


async def _write_lines(process: Process, from_session: Any, to_session: Any) -> None:
    assert process.stdin is not None
    try:
        async with from_session:
            async for sent in from_session:
                line = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(f"{line}\n".encode("utf-8", "replace"))
                await process.stdin.drain()
    except OSError:
        # The session must see that the connection has ended, instead of waiting for an answer.
        await to_session.aclose()


async def _read_stderr(process: Process, on_stderr: Callable[[bytes], None]) -> None:
    assert process.stderr is not None
    end = b""
    while chunk := await process.stderr.read(MAX_STDERR_BYTES):
        end = (end + chunk)[-MAX_STDERR_BYTES:]
        on_stderr(end)


async def _stop(process: Process) -> None:
    """Close stdin and wait; if the process does not exit, end its whole group."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    steps = deque([signal.SIGTERM, signal.SIGKILL])
    while not await _exits(process) and steps:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, steps.popleft())


async def _exits(process: Process) -> bool:
    """Return True if the process exits in time. `Process.wait` would also wait for children that have inherited its pipes."""
    for _ in range(round(EXIT_SECONDS / 0.01)):
        if process.returncode is not None:
            return True
        await asyncio.sleep(0.01)
    return process.returncode is not None

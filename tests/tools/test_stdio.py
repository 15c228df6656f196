"""The stdio transport: bounded lines, bounded stderr, and processes that end."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from graph_agent.tools import stdio
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.stdio import stdio_transport


def python(code: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-c", code])


async def test_a_line_that_is_too_long_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    # The real limit takes many megabytes.
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 1000)
    async with stdio_transport(python("print('x' * 5000000, flush=True); input()")) as (read, _):
        assert [message async for message in read] == []


async def test_a_line_with_too_many_values_ends_the_connection() -> None:
    # It is below the limit of bytes, and would take gigabytes of memory.
    line = """'{"jsonrpc":"2.0","id":1,"result":{"a":[' + '[],' * 700000 + '[]]}}'"""
    async with stdio_transport(python(f"print({line}, flush=True); input()")) as (read, _):
        assert [message async for message in read] == []


async def test_valid_lines_before_and_invalid_lines_are_passed_on() -> None:
    code = r"""print('{"jsonrpc":"2.0","method":"a"}\nnot json', flush=True)"""
    async with stdio_transport(python(code)) as (read, _):
        first, second = [message async for message in read]
    assert first.message.method == "a"
    assert isinstance(second, ValueError)


async def test_only_the_end_of_stderr_is_kept() -> None:
    ends: list[bytes] = []
    complete = asyncio.Event()

    def keep(end: bytes) -> None:
        ends.append(end)
        if end.endswith(b"the end"):
            complete.set()

    code = "import sys; sys.stderr.write('x' * 1000000 + '\\nthe end')"
    async with stdio_transport(python(code), keep):
        await complete.wait()
    assert max(map(len, ends)) == stdio.MAX_STDERR_BYTES


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def test_the_pipes_of_a_process_are_closed_while_its_child_still_has_them() -> None:
    before = descriptors()
    server = StdioServerParameters(command="sh", args=["-c", "sleep 5 & exit 1"])
    async with stdio_transport(server):
        pass
    assert descriptors() == before


async def test_a_process_that_ignores_the_end_of_its_input_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # The process is given the whole time.
    monkeypatch.setattr(stdio, "EXIT_SECONDS", 0.1)
    code = """if 1:
        import os, signal, time
        signal.signal(15, signal.SIG_IGN)
        print('{"jsonrpc":"2.0","method":"%d"}' % os.getpid(), flush=True)
        time.sleep(600)
    """
    async with stdio_transport(python(code)) as (read, _):
        said = await anext(read)
    with pytest.raises(ProcessLookupError):
        os.kill(int(said.message.method), 0)


async def test_a_command_that_cannot_be_started_is_a_failure_with_a_reason() -> None:
    executor = McpToolExecutor(StdioServerParameters(command="/no/such/command"))
    assert not await executor.start()
    assert executor.failure == "there is no such command or folder"
    await executor.aclose()

"""Calls to an MCP server over stdio: one session for all of them, beside one session for each call.

The server runs in another process and answers at once. A session for each call starts the command again, as clients do that
open a connection for a turn. The sides take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
import warnings
from collections.abc import Awaitable, Callable

from mcp import StdioServerParameters
from mcp.server.mcpserver import MCPServer

from graph_agent.tools.executor import McpToolExecutor
from tests.permission import permitted

ROUNDS = 5
CALLS = 100
"""Calls of the one session in each round."""
AT_ONCE = 50

SERVER = StdioServerParameters(command=sys.executable, args=["-m", "benchmarks.mcp_calls", "serve"])

ECHO = permitted("echo", {"text": "tea"})

Call = Callable[[], Awaitable[object]]


def serve() -> None:
    server = MCPServer("instant", log_level="ERROR")

    @server.tool()
    async def echo(text: str) -> str:
        return text

    server.run("stdio")


async def call(executor: McpToolExecutor) -> None:
    result = await executor.execute(ECHO, deadline=60)
    assert result.success, result


async def call_in_own_session() -> None:
    async with McpToolExecutor(SERVER, timeout=60) as executor:
        await call(executor)


async def timed(work: Call) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


def p99(seconds: list[float]) -> float:
    """Return the 99th percentile in milliseconds; of fewer than a hundred values it is close to the largest."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[98] * 1000


async def measure() -> dict[str, tuple[float, float]]:
    """Calls per second and p99 in milliseconds: one after the other in one session, `AT_ONCE`, each in a session of its own."""
    spent: dict[str, list[float]] = {"one session": [], f"one session, {AT_ONCE} at a time": [], "one session per call": []}
    elapsed = dict.fromkeys(spent, 0.0)
    async with McpToolExecutor(SERVER, timeout=60) as executor:

        async def one() -> None:
            await call(executor)

        await one()
        alone, crowded, own = spent
        for _ in range(ROUNDS):
            started = time.perf_counter()
            spent[alone] += [await timed(one) for _ in range(CALLS)]
            elapsed[alone] += time.perf_counter() - started
            started = time.perf_counter()
            spent[crowded] += await asyncio.gather(*(timed(one) for _ in range(AT_ONCE)))
            elapsed[crowded] += time.perf_counter() - started
            started = time.perf_counter()
            spent[own].append(await timed(call_in_own_session))
            elapsed[own] += time.perf_counter() - started
    return {name: (len(times) / elapsed[name], p99(times)) for name, times in spent.items()}


def main() -> None:
    """Print calls per second and p99."""
    warnings.simplefilter("ignore")
    print("calls to an MCP server over stdio that answers at once\n")
    print(f"{'':32}{'calls/s':>10}{'p99 ms':>10}")
    for name, (rate, slowest) in asyncio.run(measure()).items():
        print(f"{name:32}{rate:10.1f}{slowest:10.1f}")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()

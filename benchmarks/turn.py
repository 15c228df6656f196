"""CPU of a full one-tool turn: graph, guard, task server over MCP, ledger, and the record on SQLite with full durability."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.spin import spin
from graph_agent.chat.conversations import ConfirmationStore
from graph_agent.db import Database, migrate
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration, select_declarations
from graph_agent.policy.constitution import Constitution
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.turn.engine import LLMAgentEngine

ALONE = 100
CONCURRENT = 50
WAVES = 4
LIMIT_MS = 15


class OneToolModel:
    """Answers at once: one `add_task`, then a sentence."""

    model = "instant"

    async def generate(self, messages: Sequence[LLMMessage], *_: Any, **__: Any) -> LLMResponse:
        if messages[-1].role == "function":
            return LLMResponse(content="I added it to your list.", finish_reason="stop")
        call = FunctionCall(name="add_task", arguments={"description": "call mom"})
        return LLMResponse(function_calls=[call], finish_reason="tool_calls")

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return select_declarations(TASK_TOOLS, tools)


@asynccontextmanager
async def full_engine(folder: Path) -> AsyncIterator[LLMAgentEngine]:
    """An engine on real databases in `folder`, with the shipped task server in the process."""
    tasks, log = (Database.open(f"sqlite:///{folder / name}") for name in ("tasks.db", "log.db"))
    migrate(tasks, "graph_agent.task_server")
    migrate(tasks, "graph_agent.chat.conversations")
    migrate(log, "graph_agent.record")
    async with McpToolExecutor(build_task_server(tasks)) as tools:
        yield LLMAgentEngine(
            OneToolModel(),
            tools,
            Constitution.load().text,
            audit=DatabaseAuditWriter(log),
            confirmations=ConfirmationStore(tasks),
        )
    await tasks.close()
    await log.close()


def _context(number: int) -> DecisionContext:
    return DecisionContext(user_id=f"user {number}", message="add a task to call mom", conversation_id=f"c{number}")


async def measure() -> tuple[float, float, float, float]:
    """CPU milliseconds (all threads) of a spin, of a turn alone and of one of 50 at a time; then turns a second."""
    with tempfile.TemporaryDirectory() as folder:
        async with full_engine(Path(folder)) as engine:
            for number in range(20):
                await engine.run(_context(number))
            # As the command line does after its imports: what is loaded once need not be looked through again.
            gc.collect()
            gc.freeze()
            spins: list[float] = []
            alone: list[float] = []
            for number in range(ALONE):
                spins.append(spin())
                started = time.process_time()
                await engine.run(_context(number))
                alone.append(time.process_time() - started)
            started, clock = time.process_time(), time.perf_counter()
            for wave in range(WAVES):
                await asyncio.gather(*(engine.run(_context(wave * CONCURRENT + number)) for number in range(CONCURRENT)))
            turns = WAVES * CONCURRENT
            spent, took = time.process_time() - started, time.perf_counter() - clock
    return statistics.median(spins) * 1000, statistics.median(alone) * 1000, spent / turns * 1000, turns / took


def main() -> None:
    one_spin, alone, crowded, rate = asyncio.run(measure())
    print("CPU of a full one-tool turn (MCP, ledger, record on SQLite, synchronous=FULL), all threads")
    print(f"one spin = {one_spin * 1000:.0f} µs here\n")
    print(f"{'alone':18}{alone:8.1f} ms   = {alone / one_spin:.1f} spins (at most {LIMIT_MS} ms)")
    text = f"= {1000 / crowded:.0f} turns a second and core; {rate:.0f}/s measured"
    print(f"{f'{CONCURRENT} at a time':18}{crowded:8.1f} ms   {text}")


if __name__ == "__main__":
    main()

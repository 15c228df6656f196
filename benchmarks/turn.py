"""CPU of a full one-tool turn: graph, guard, task server over MCP, ledger, and the record on SQLite with full durability."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from mcp import Client
from mcp.server import MCPServer

from benchmarks.goals import against, versions
from benchmarks.graph import Scenario, interleaved
from benchmarks.peers import create_agent as peers
from benchmarks.spin import spin, spin_microseconds
from graph_agent.chat.conversations.confirmations import ConfirmationStore
from graph_agent.db import Database, migrate
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration, select_declarations
from graph_agent.policy.constitution import Constitution
from graph_agent.ports import LLMAdapter
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.turn.engine import LLMAgentEngine
from tests.scripted_turns import grouped

ALONE = 100
CONCURRENT = 50
WAVES = 4
GOAL_SPINS = 10.5
GOAL_RATIO = 0.85
PACKAGES = ("langchain", "langgraph", "langgraph-checkpoint-sqlite", "mcp")


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
async def full_engine(folder: Path, model: LLMAdapter | None = None) -> AsyncIterator[LLMAgentEngine]:
    """Open an engine on a new database in `folder`, with the shipped task server in this process."""
    database = Database.open(f"sqlite:///{folder / 'graph_agent.db'}")
    for package in ("graph_agent.record", "graph_agent.task_server", "graph_agent.chat.conversations"):
        migrate(database, package)
    async with McpToolExecutor(build_task_server(database)) as tools:
        yield LLMAgentEngine(
            model or OneToolModel(),
            tools,
            Constitution.load().text,
            **grouped(audit=DatabaseAuditWriter(database), confirmations=ConfirmationStore(database)),
        )
    await database.close()


def context_of(number: int) -> DecisionContext:
    """Return a request of one of many users."""
    return DecisionContext(user_id=f"user {number}", message="add a task to call mom", conversation_id=f"c{number}")


@asynccontextmanager
async def peer_turn(folder: Path) -> AsyncIterator[Scenario]:
    """LangChain's agent with a tool over an MCP server in memory, and its checkpoints in SQLite. Nothing else is stored."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    server = MCPServer("tasks")

    @server.tool()
    def add_task(description: str, due_date: str | None = None) -> dict[str, Any]:
        """Add a task to the user's list."""
        return {"task": {"id": description, "description": description, "due_date": due_date}}

    async with Client(server) as client, AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:

        async def act(**arguments: Any) -> str:
            return str((await client.call_tool("add_task", arguments)).structured_content)

        compiled = peers.agent(peers.InstantChatModel(rounds=1), act, saver)
        number = itertools.count()

        async def turn() -> Any:
            thread = {"configurable": {"thread_id": str(next(number))}}
            return await compiled.ainvoke({"messages": [HumanMessage(peers.MESSAGE)]}, thread)

        yield turn


async def measure() -> tuple[dict[str, float], float, float]:
    """Return the CPU in spins of one turn at a time, ours and the peer's; of ours at 50 at a time; our turns per second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with full_engine(folder) as engine, peer_turn(folder) as peer:
            number = itertools.count()

            async def ours() -> Any:
                return await engine.run(context_of(next(number)))

            alone = await interleaved({"ours": ours, "peer": peer}, ALONE)
            before = spin()
            started, clock = time.process_time(), time.perf_counter()
            for wave in range(WAVES):
                await asyncio.gather(*(engine.run(context_of(wave * CONCURRENT + number)) for number in range(CONCURRENT)))
            turns = WAVES * CONCURRENT
            spent, took = time.process_time() - started, time.perf_counter() - clock
    return alone, spent / turns / ((before + spin()) / 2), turns / took


def main() -> None:
    """Print the CPU of a turn alone, beside the peer's, and of one of many."""
    warnings.simplefilter("ignore")
    alone, crowded, rate = asyncio.run(measure())
    unit = spin_microseconds() / 1000
    print("CPU of a full one-tool turn (MCP, ledger, record on SQLite, synchronous=FULL), all threads")
    print(f"beside create_agent with an MCP server in memory and AsyncSqliteSaver ({versions(PACKAGES)})")
    print(f"one spin = {unit * 1000:.0f} µs here\n")
    ratio = alone["ours"] / alone["peer"]
    line = f"{'alone':18}{alone['ours'] * unit:8.1f} ms = {alone['ours']:5.1f} spins"
    print(line + against("whole turn alone", alone["ours"], GOAL_SPINS, " spins"))
    print(
        f"{'the peer':18}{alone['peer'] * unit:8.1f} ms, ratio {ratio:.2f}"
        + against("whole turn to the peer", ratio, GOAL_RATIO)
    )
    text = f"= {crowded:5.1f} spins, {1000 / (crowded * unit):.0f} turns a second and core; {rate:.0f}/s measured"
    print(f"{f'{CONCURRENT} at a time':18}{crowded * unit:8.1f} ms {text}")


if __name__ == "__main__":
    main()

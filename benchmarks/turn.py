"""CPU of a message with one tool call, as users send it: `ChatService.send`, with all that it stores at full durability.

That is the claim of the turn, the graph, the guard, the task server over MCP, its ledger, the record, and the stored messages.
The peer is LangChain's agent with LangGraph's saver.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from mcp import Client
from mcp.server import MCPServer

from benchmarks.goals import against, print_missed, settled, versions
from benchmarks.graph import Scenario, interleaved
from benchmarks.peers import create_agent
from benchmarks.peers.turns import MESSAGE
from benchmarks.spin import spin, spin_microseconds
from graph_agent.chat.service import ChatService
from graph_agent.db import Database, migrate
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration, select_declarations
from graph_agent.policy.constitution import Constitution
from graph_agent.ports import LLMAdapter
from graph_agent.question.confirmations import ConfirmationStore
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.turn.engine import LLMAgentEngine
from tests.scripted_turns import grouped

ALONE = 200
CONCURRENT = 50
WAVES = 4
GOALS: Mapping[str, Mapping[str, float]] = {
    "SQLite": {"async": 0.90, "exit": 1.45},
    "PostgreSQL": {"async": 1.05, "exit": 1.75},
}
"""The goals for the ratio to the peer, by what it stores: each step, or only the end of a turn."""
PACKAGES = ("langchain", "langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "mcp")


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
async def full_engine(folder: Path, model: LLMAdapter | None = None, *, url: str = "") -> AsyncIterator[LLMAgentEngine]:
    """Open an engine on the database at `url`, by default a new one in `folder`, with the task server in this process."""
    database = Database.open(url or f"sqlite:///{folder / 'graph_agent.db'}")
    for package in ("graph_agent.record", "graph_agent.task_server", "graph_agent.question", "graph_agent.chat.conversations"):
        migrate(database, package)
    async with McpToolExecutor(build_task_server(database)) as tools:
        yield LLMAgentEngine(
            model or OneToolModel(),
            tools,
            Constitution.load().text,
            **grouped(audit=DatabaseAuditWriter(database), confirmations=ConfirmationStore(database)),
        )
    await database.close()


@asynccontextmanager
async def chat_turns(folder: Path, url: str = "") -> AsyncIterator[Scenario]:
    """Open a chat service on such an engine. Each turn is the first message of another user."""
    number = itertools.count()
    async with full_engine(folder, url=url) as engine:
        chat = ChatService(engine, turns_per_minute=sys.maxsize)

        async def turn() -> Any:
            return await chat.send(f"user {next(number)}", MESSAGE)

        yield turn


def context_of(number: int) -> DecisionContext:
    """Return a request of one of many users."""
    return DecisionContext(user_id=f"user {number}", message="add a task to call mom", conversation_id=f"c{number}")


async def turn_microseconds(turns: int = 60) -> float:
    """Return the CPU of one turn on SQLite, in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        async with full_engine(Path(folder)) as engine:
            await engine.run(context_of(0))
            started = time.process_time()
            for number in range(1, turns + 1):
                await engine.run(context_of(number))
            return (time.process_time() - started) / turns * 1e6


@asynccontextmanager
async def peer_turns(folder: Path, url: str) -> AsyncIterator[dict[str, Scenario]]:
    """LangChain's agent with a tool over an MCP server in memory. It stores its checkpoints, and nothing else."""
    server = MCPServer("tasks")

    @server.tool()
    def add_task(description: str, due_date: str | None = None) -> dict[str, Any]:
        """Add a task to the user's list."""
        return {"task": {"id": description, "description": description, "due_date": due_date}}

    async with Client(server) as client, saver_at(folder, url) as saver:

        async def act(**arguments: Any) -> str:
            return str((await client.call_tool("add_task", arguments)).structured_content)

        compiled = create_agent.agent(create_agent.InstantChatModel(rounds=1), act, saver)
        number = itertools.count()

        async def turn(durability: str) -> Any:
            thread = {"configurable": {"thread_id": str(next(number))}}
            return await compiled.ainvoke({"messages": [HumanMessage(MESSAGE)]}, thread, durability=durability)

        yield {durability: partial(turn, durability) for durability in ("async", "exit")}


@asynccontextmanager
async def saver_at(folder: Path, url: str) -> AsyncIterator[Any]:
    """Open LangGraph's saver for PostgreSQL, or without `url` the one for SQLite."""
    if url:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            await saver.setup()
            yield saver
    else:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
            yield saver


async def alone(folder: Path, url: str = "") -> dict[str, float]:
    """Return the CPU in spins of one turn at a time: ours, and the peer's by durability."""
    async with chat_turns(folder, url) as ours, peer_turns(folder, url) as peers:
        return await interleaved({"ours": ours, **peers}, ALONE)


async def crowded(folder: Path) -> tuple[float, float]:
    """Return the CPU in spins of one of many of our turns at once, and our turns per second."""
    async with chat_turns(folder) as turn:
        for wave in range(WAVES + 1):
            if wave == 1:
                before, started, clock = spin(), time.process_time(), time.perf_counter()
            await asyncio.gather(*(turn() for _ in range(CONCURRENT)))
        spent, took = time.process_time() - started, time.perf_counter() - clock
    turns = WAVES * CONCURRENT
    return spent / turns / ((before + spin()) / 2), turns / took


def compare(store: str, url: str = "") -> None:
    """Print the CPU of a turn alone on one kind of database, and its ratios to the peer's."""
    unit = spin_microseconds() / 1000

    def measure() -> tuple[dict[str, float], dict[str, float]]:
        with tempfile.TemporaryDirectory() as name:
            spent = asyncio.run(alone(Path(name), url))
        return spent, {durability: spent["ours"] / spent[durability] for durability in GOALS[store]}

    spent, ratios = settled(measure, GOALS[store])
    print(f"{store:18}{spent['ours'] * unit:8.1f} ms = {spent['ours']:5.1f} spins")
    for durability, goal in GOALS[store].items():
        line = f"  {f'peer, {durability}':16}{spent[durability] * unit:8.1f} ms, ratio {ratios[durability]:.2f}"
        print(line + against(f"chat turn on {store} to the peer's {durability}", ratios[durability], goal))


def main() -> None:
    """Print the CPU of a turn alone, beside the peer's, and of one of many."""
    warnings.simplefilter("ignore")
    unit = spin_microseconds() / 1000
    print("CPU of a chat message with one tool call (claim, MCP, ledger, record, answer), all threads of this process, beside")
    print(f"create_agent with an MCP server in memory and LangGraph's saver ({versions(PACKAGES)})")
    print(f"one spin = {unit * 1000:.0f} µs here\n")
    # Imported here, because the environment of the other frameworks, which runs turns too, has no PostgreSQL server.
    from tests.cluster.services import PostgreSql

    compare("SQLite")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        server = PostgreSql(Path(name))
        try:
            compare("PostgreSQL", server.url)
        finally:
            server.close()
    with tempfile.TemporaryDirectory() as name:
        spins, rate = asyncio.run(crowded(Path(name)))
    text = f"= {spins:5.1f} spins, {1000 / (spins * unit):.0f} turns a second and core; {rate:.0f}/s measured"
    print(f"{f'{CONCURRENT} at a time':18}{spins * unit:8.1f} ms {text}")


if __name__ == "__main__":
    main()
    print_missed()

"""One process of an application with a saver of LangGraph: `HOME URL MODE [MESSAGE]`. `killed` lets it die in a call."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from graph_agent.bootstrap.agent_services import open_agent_services
from graph_agent.integrations.langchain import as_node
from graph_agent.llm.embedded.planning import EmbeddedAdapter
from graph_agent.models.tools import ToolResult
from graph_agent.settings import Settings
from graph_agent.turn.hooks import HookedToolCall, TurnHook
from graph_agent.turn.setup import EngineOptions
from tests.integrations.langchain.chat_model import THREAD, graph_with, said


class Kill(TurnHook):
    """Kills the process when a tool has acted, before its result is recorded."""

    def after_tool_call(self, call: HookedToolCall, outcome: ToolResult | BaseException) -> None:  # noqa: ARG002 (the interface has it)
        assert isinstance(outcome, ToolResult)
        if outcome.data and "preview" in outcome.data:
            os.kill(os.getpid(), signal.SIGKILL)


@asynccontextmanager
async def open_saver(url: str) -> AsyncGenerator[Any]:
    """Open LangGraph's own saver on the database of the runtime, or on a file beside it."""
    if url.startswith("postgresql"):
        async with AsyncPostgresSaver.from_conn_string(url.replace("+psycopg", "")) as postgresql:
            await postgresql.setup()
            yield postgresql
    else:
        async with AsyncSqliteSaver.from_conn_string(url.removeprefix("sqlite:///") + ".checkpoints") as sqlite:
            yield sqlite


async def run(home: Path, url: str, mode: str, given: Any) -> None:
    settings = Settings(GRAPH_AGENT_HOME=home, DATABASE_URL=url)
    async with open_agent_services(settings) as services, open_saver(url) as saver:
        hooks = [Kill] if mode == "killed" else []
        engine = services.engine(EmbeddedAdapter(), EngineOptions(hooks=hooks))
        ended = await graph_with(as_node(engine), saver).ainvoke(given, THREAD, durability="sync")
        checkpoints = [kept.config["configurable"]["checkpoint_ns"] async for kept in saver.alist(THREAD)]
        print(ended["messages"][-1].text, len(checkpoints), sorted(set(checkpoints)), sep="|")


if __name__ == "__main__":
    home, url, mode, *message = sys.argv[1:]
    asyncio.run(run(Path(home), url, mode, said(message[0]) if message else None))

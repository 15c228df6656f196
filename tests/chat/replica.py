"""One server of several on a database, whose host has a wrong clock: `replica.py SECONDS`.

The settings are in the environment. Its model lets the tool `send` send every message. It prints its process id and address.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from graph_agent.api.app import create_app
from graph_agent.api.server import HttpServerConfig
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.chat.service import ChatService
from graph_agent.cli.listening import open_listener
from graph_agent.clock import SystemClock
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.policy.constitution import Constitution
from graph_agent.settings import read_settings
from graph_agent.testing import calls, says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EnginePorts
from tests.serving import ServerWithoutSignals

THINKING_SECONDS = 0.2


class SkewedClock(SystemClock):
    """The clock of a host that is ahead of the others, or behind."""

    def __init__(self, seconds: float) -> None:
        self._skew = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self._skew


class Sender(ScriptedAdapter):
    """A model that sends what the user has written."""

    async def generate(self, messages: list[LLMMessage], tools: list[ToolDeclaration], *_: Any, **__: Any) -> LLMResponse:  # noqa: ARG002 (the port's parameters)
        await asyncio.sleep(THINKING_SECONDS)
        last = messages[-1]
        return calls("send", text=last.content) if last.role == "user" else says("Sent.")


async def serve(skew: float) -> None:
    settings, clock = read_settings(), SkewedClock(skew)
    async with open_runtime(settings, model="embedded", clock=clock) as runtime:
        constitution = Constitution.load(settings.constitution).text
        engine = LLMAgentEngine(Sender([]), runtime.tools, constitution, ports=EnginePorts(runtime.audit, clock))
        chat = ChatService(engine, clock=clock, turns_per_minute=settings.turns_per_minute)
        server = ServerWithoutSignals(HttpServerConfig(create_app(replace(runtime, engine=engine, chat=chat))))
        listener = open_listener("127.0.0.1", 0)
        host, port = listener.getsockname()
        print(f"{os.getpid()} http://{host}:{port}", flush=True)
        await server.serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))

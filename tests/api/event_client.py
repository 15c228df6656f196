"""A client of server-sent events, and a server in the test's event loop."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from graph_agent.api.app import create_app
from graph_agent.api.server import HttpServerConfig
from graph_agent.bootstrap.runtime import Runtime
from tests.serving import ServerWithoutSignals


@dataclass(frozen=True)
class Heard:
    """One server-sent event."""

    id: str | None
    event: str
    data: dict[str, Any]


async def hear(answer: httpx.Response, *, running: bool = False) -> AsyncIterator[Heard]:
    """Yield the events of a stream as they arrive, without comments.

    Those of running calls are left out unless `running`, because a quick call ends before it is seen.
    """
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            if running or fields["event"] != "call":
                yield Heard(fields.get("id"), fields["event"], json.loads(fields["data"]))
            fields = {}


async def heard(answer: httpx.Response) -> list[Heard]:
    """Return all events of a complete stream."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [event async for event in hear(answer)]


@asynccontextmanager
async def listening(runtime: Runtime) -> AsyncGenerator[httpx.AsyncClient]:
    """Yield a client of a uvicorn server over `runtime`."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = ServerWithoutSignals(HttpServerConfig(create_app(runtime), log_level="critical", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        await serving
        listener.close()

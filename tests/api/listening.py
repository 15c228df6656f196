"""Server-sent events as a client reads them, and a server in the test's own event loop to read them from while they come."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import Runtime
from tests.serving import GuestServer


@dataclass(frozen=True)
class Heard:
    """One event."""

    id: str | None
    event: str
    data: dict[str, Any]


async def hear(answer: httpx.Response) -> AsyncIterator[Heard]:
    """The events of a stream, as they arrive; comments are passed over."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Heard(fields.get("id"), fields["event"], json.loads(fields["data"]))
            fields = {}


async def heard(answer: httpx.Response) -> list[Heard]:
    """All events of a stream that has ended."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [event async for event in hear(answer)]


@asynccontextmanager
async def listening(runtime: Runtime) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a real server over `runtime`."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = GuestServer(uvicorn.Config(create_app(runtime), log_level="critical", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        await serving
        listener.close()

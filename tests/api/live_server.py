"""The API on uvicorn, on a loopback port, in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from graph_agent.api.app import create_app
from graph_agent.api.launch_session import LaunchSession
from graph_agent.api.server import HttpServerConfig
from graph_agent.api.static_page import Page
from graph_agent.bootstrap.runtime import Runtime
from tests.chat.environment import Environment, open_environment
from tests.serving import ServerWithoutSignals

_ANSWER_SECONDS = 60
"""A busy machine may take longer than the five seconds of httpx."""
_TURN_SECONDS = 600
"""No turn ends because the machine was busy, unless a test gives its engine a deadline."""


class LiveServer:
    """A running server: its address, requests to it, and `stop`, which shuts it down as SIGTERM does."""

    def __init__(self, url: str, server: uvicorn.Server) -> None:
        self.url = url
        self.ended = threading.Event()
        self._server = server

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=_ANSWER_SECONDS)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """Send a request with these options of httpx."""
        return httpx.post(f"{self.url}{path}", timeout=_ANSWER_SECONDS, **options)

    def stop(self) -> None:
        self._server.should_exit = True


@contextmanager
def live_server(
    folder: Path,
    template: Path,
    make: Callable[[Environment], Runtime],
    page: Page | None = None,
    launch: LaunchSession | None = None,
    port: int = 0,
    **settings: Any,
) -> Iterator[LiveServer]:
    """Serve in `folder`; `settings` are those of `HttpServerConfig`."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    ready = threading.Event()
    started: list[LiveServer] = []

    async def serve() -> None:
        async with open_environment(folder, template) as environment:
            environment.timeout_seconds = _TURN_SECONDS
            config = HttpServerConfig(create_app(make(environment), page, launch), timeout_graceful_shutdown=1, **settings)
            server = ServerWithoutSignals(config)
            started.append(LiveServer(f"http://127.0.0.1:{listening.getsockname()[1]}", server))
            listening.listen()
            ready.set()
            await server.serve(sockets=[listening])
        started[0].ended.set()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    try:
        yield started[0]
    finally:
        started[0].stop()
        thread.join()
        listening.close()

"""The API behind a real uvicorn on a loopback port, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import Runtime
from tests.chat.world import World, open_world
from tests.serving import GuestServer


class LiveServer:
    """Its address, and `stop`, which is what SIGTERM asks of it."""

    def __init__(self, url: str, server: uvicorn.Server) -> None:
        self.url = url
        self.ended = threading.Event()
        self._server = server

    def stop(self) -> None:
        self._server.should_exit = True


@contextmanager
def live_server(folder: Path, template: Path, make: Callable[[World], Runtime]) -> Iterator[LiveServer]:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    ready = threading.Event()
    started: list[LiveServer] = []

    async def serve() -> None:
        async with open_world(folder, template) as world:
            config = uvicorn.Config(create_app(make(world)), log_level="critical", timeout_graceful_shutdown=1)
            server = GuestServer(config)
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

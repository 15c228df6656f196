"""Task servers over HTTP that die, come back, lose replies or stay silent, each with a ledger of its own."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graph_agent.api.server import HttpServerConfig
from graph_agent.db import Database, migrate
from graph_agent.ledger.protocol import OPERATION_META
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.transport import HttpServer
from tests.chat.asgi import lose, read_body
from tests.serving import ServerWithoutSignals, free_ports


class _LostReplyError(Exception):
    """The connection ends without a reply."""


@dataclass
class RestartedServer:
    """A task server that can be started again on the same port, with the same data."""

    name: str
    folder: Path
    losing: bool = False
    """Calls take effect, and no reply arrives; settlements do not arrive."""
    unanswered: set[str] = field(default_factory=set)
    """The keys of operations whose settlement gets no answer."""
    asked: list[str] = field(default_factory=list)
    """The keys of the settlements that have arrived."""
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    _running: tuple[ServerWithoutSignals, asyncio.Task[None]] | None = None

    def __post_init__(self) -> None:
        [self._port] = free_ports(1)
        self._database = Database.open(f"sqlite:///{self.folder / self.name}.db")
        migrate(self._database, "graph_agent.task_server")

    @property
    def config(self) -> ServerConfig:
        server = HttpServer(f"http://127.0.0.1:{self._port}/mcp")
        return ServerConfig(self.name, server, trusted=True, prefixed=True)

    async def start(self) -> None:
        listener = socket.create_server(("127.0.0.1", self._port))
        app = build_task_server(self._database).streamable_http_app(json_response=True)

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            body, again = await read_body(receive)
            meta = _operation(body)
            settles = meta.get("mode") == "settle"
            if settles:
                if self.losing or meta["key"] in self.unanswered:
                    raise _LostReplyError
                self.asked.append(meta["key"])
            await app(scope, again, lose if self.losing and meta else send)
            if self.losing and meta:
                raise _LostReplyError
            if settles:
                self.answered.set()

        config = HttpServerConfig(serve, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
        running = ServerWithoutSignals(config)
        # Connections wait in the listener until it serves.
        self._running = running, asyncio.create_task(running.serve(sockets=[listener]))

    async def stop(self) -> None:
        if self._running is not None:
            server, task = self._running
            server.should_exit = server.force_exit = True
            await task
            self._running = None

    async def be_silent(self) -> asyncio.Server:
        """Accept connections in the place of the server, and never answer."""
        await self.stop()

        async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                await reader.read(-1)
            writer.close()

        return await asyncio.start_server(never, "127.0.0.1", self._port)

    async def close(self) -> None:
        await self.stop()
        await self._database.close()


def _operation(body: bytes) -> dict[str, Any]:
    """Return the operation that a request names; empty if it is another one."""
    with suppress(ValueError, LookupError, TypeError):
        found = json.loads(body)["params"]["_meta"][OPERATION_META]
        return found if isinstance(found, dict) else {}
    return {}

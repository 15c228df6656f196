"""Servers for tests: one in this process that leaves its signal handlers alone, and ports and addresses of those in others."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from graph_agent.api.server import HttpServerConfig, Server

PORTS = range(10_000, 32_000)
"""Below those from which Linux and macOS choose the port of a socket that asks for none."""


class ServerWithoutSignals(Server):
    """A server without signal handlers: two servers that end in the order in which they began would restore the wrong ones."""

    def __init__(self, config: HttpServerConfig) -> None:
        super().__init__(config, on_started=lambda: None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def free_ports(count: int) -> list[int]:
    """Return ports for servers that start later.

    The system chooses none of them: it could give one to another test before the server has it, or while the server restarts.
    """
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            port = random.SystemRandom().choice(PORTS)
            with suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
    return ports


def launch_header(home: Path) -> dict[str, str]:
    """Return the header that the clients of a server with this home send."""
    name, _, value = (home / "authorization").read_text(encoding="utf-8").strip().partition(": ")
    return {name: value}


def address_of(server: subprocess.Popen[bytes], log: Path, label: str = "serving") -> str:
    """Wait until a `graph-agent serve` whose stderr goes to `log` has printed its address, or another one, and return it."""
    with log.open(encoding="utf-8") as lines:
        while server.poll() is None:
            # With --log-format json the line is an object.
            if found := re.search(rf'(?:^|"){label} ([^\s"]+)', lines.readline()):
                return found[1]
            # A loop without a pause would take the processor from the server that is starting.
            time.sleep(0.02)
    raise AssertionError(log.read_text(encoding="utf-8"))

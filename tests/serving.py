"""Servers for tests: one in this process that leaves its signal handlers alone, and the address of one in another process."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graph_agent.api.server import HttpServerConfig, Server


class ServerWithoutSignals(Server):
    """A server without signal handlers: two servers that end in the order in which they began would restore the wrong ones."""

    def __init__(self, config: HttpServerConfig) -> None:
        super().__init__(config, on_started=lambda: None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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

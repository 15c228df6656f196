"""`graph-agent serve` with few file descriptors and many clients."""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

DESCRIPTORS = 1024

_COMMAND = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS // 2}, {DESCRIPTORS}))
from graph_agent.cli.main import main
main(["serve", "--port", "0", "--model", "rules"])
"""

_SLOW_BODY = b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"


@contextmanager
def _serving(home: Path, log: Path) -> Iterator[str]:
    """Run a server that may open 1,024 descriptors, and yield its address; its stderr goes to `log`."""
    environment = {**os.environ, "GRAPH_AGENT_HOME": str(home)}
    with log.open("wb") as errors, subprocess.Popen([sys.executable, "-c", _COMMAND], stderr=errors, env=environment) as server:
        try:
            yield _address(log, server)
            server.terminate()
            assert server.wait(60) == 0
        finally:
            server.kill()


def _address(log: Path, server: subprocess.Popen[bytes]) -> str:
    with log.open(encoding="utf-8") as lines:
        while server.poll() is None:
            if found := re.search(r"serving (\S+)", lines.readline()):
                return found[1]
    raise AssertionError(log.read_text(encoding="utf-8"))


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Let this process open the sockets of all clients."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize(("clients", "sent"), [(1100, b""), (1030, _SLOW_BODY)], ids=["idle", "slow bodies"])
def test_more_clients_than_descriptors_do_not_stop_the_server(home: Path, tmp_path: Path, clients: int, sent: bytes) -> None:
    log = tmp_path / "stderr"
    with _serving(home, log) as url, ExitStack() as stack:
        address = httpx.URL(url)
        for _ in range(clients):
            connection = stack.enter_context(socket.create_connection((address.host, address.port), timeout=30))
            connection.sendall(sent)
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            assert client.post("/api/chat", json={"content": "show my tasks"}).status_code == 200
            assert client.get("/readyz").status_code == 200
    # A failed accept is logged again and again; a few lines of other kinds are normal.
    assert "out of system resource" not in log.read_text(encoding="utf-8")
    assert log.stat().st_size < 10_000

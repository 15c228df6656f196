"""`graph-agent serve` with few file descriptors and many clients."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests import fork_server
from tests.overload import TURN_REQUEST, send_burst
from tests.serving import address_of

DESCRIPTORS = 1024

_COMMAND = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS // 2}, {DESCRIPTORS}))
from graph_agent.cli.main import main
main(["serve", "--port", "0", "--model", "embedded", "--no-token"])
"""

_SLOW_BODY = b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"


@contextmanager
def _serving(home: Path, log: Path) -> Iterator[str]:
    """Run a server that may open 1,024 descriptors, and yield its address; its stderr goes to `log`."""
    environment = {**os.environ, "GRAPH_AGENT_HOME": str(home), "GRAPH_AGENT_TURNS_PER_MINUTE": "1000000"}
    with (
        log.open("wb") as errors,
        subprocess.Popen([fork_server.python(), "-c", _COMMAND], stderr=errors, env=environment) as server,
    ):
        try:
            yield address_of(server, log)
            server.terminate()
            assert server.wait(60) == 0
        finally:
            server.kill()


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
    # A few lines of other kinds are normal.
    assert "out of system resource" not in log.read_text(encoding="utf-8")
    assert log.stat().st_size < 10_000


@pytest.mark.usefixtures("many_descriptors")
def test_more_turns_at_once_than_descriptors_are_answered_or_refused(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with _serving(home, log) as url:
        port = httpx.URL(url).port
        assert port is not None
        answers = send_burst(port, TURN_REQUEST, 1500, seconds=120)
        assert httpx.get(f"{url}/readyz", trust_env=False, timeout=30).status_code == 200
    assert len(answers) == 1500
    assert {answer.status for answer in answers} == {200, 503}
    assert all(answer.retry_after for answer in answers if answer.status == 503)
    assert "out of system resource" not in log.read_text(encoding="utf-8")

"""`graph-agent serve`."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any

import httpx
import pytest

from graph_agent.cli.main import main
from graph_agent.cli.serve import is_loopback
from tests.cli.conftest import Cli


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(monkeypatch: pytest.MonkeyPatch, sent: signal.Signals) -> None:
    reading, writing = os.pipe()
    answers: list[httpx.Response] = []

    def ask() -> None:
        with os.fdopen(reading, encoding="utf-8") as stderr:
            url = next(line for line in stderr if line.startswith("serving ")).split()[1]
            with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
                answers.append(client.get("/readyz"))
                answers.append(client.post("/api/chat", json={"content": "add a task to call mom"}))
            os.kill(os.getpid(), sent)
            stderr.read()

    thread = threading.Thread(target=ask)
    thread.start()
    with os.fdopen(writing, "w", encoding="utf-8", buffering=1) as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        with pytest.raises(SystemExit) as ended:
            main(["serve", "--port", "0"])
    thread.join()

    assert ended.value.code == 0
    assert [answer.status_code for answer in answers] == [200, 200]
    body: dict[str, Any] = answers[1].json()
    assert body["decision"]["effects"] == ["added 'call mom'"]
    assert "server" not in answers[0].headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org", ""])
def test_without_authentication_only_loopback_is_served(cli: Cli, host: str) -> None:
    ended = cli("serve", "--host", host)

    assert (ended.code, ended.out) == (2, "")
    assert "GRAPH_AGENT_JWT_SECRET" in ended.err


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback_addresses(host: str) -> None:
    assert is_loopback(host)


def test_a_port_in_use_is_reported_before_anything_starts(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = cli("serve", "--port", str(port))

    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        f"graph-agent: cannot listen on 127.0.0.1, port {port}: Address already in use (--port takes another one)\n"
    )

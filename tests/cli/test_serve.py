"""`graph-agent serve`."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from sse_starlette.sse import AppStatus

from graph_agent.cli.main import main
from graph_agent.net.addresses import is_loopback
from tests.cli.conftest import Cli
from tests.fork_server import graph_agent
from tests.serving import address_of, launch_header


@pytest.fixture
def next_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the servers of later tests in this process send events for longer than half a second after a signal has ended one."""
    # The library of event streams sets this for the whole process, and nothing resets it.
    monkeypatch.setattr(AppStatus, "should_exit", False)


@pytest.mark.usefixtures("next_servers")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(monkeypatch: pytest.MonkeyPatch, home: Path, sent: signal.Signals) -> None:
    reading, writing = os.pipe()
    answers: list[httpx.Response] = []

    def ask() -> None:
        with os.fdopen(reading, encoding="utf-8") as stderr:
            url = next(line for line in stderr if line.startswith("serving ")).split()[1]
            with httpx.Client(base_url=url, headers=launch_header(home), trust_env=False, timeout=60) as client:
                answers.append(client.get("/readyz"))
                answers.append(client.post("/api/chat", json={"content": "add a task to call mom"}))
            os.kill(os.getpid(), sent)
            stderr.read()

    thread = threading.Thread(target=ask)
    thread.start()
    with os.fdopen(writing, "w", encoding="utf-8", buffering=1) as stderr:
        # The command runs in this process, and another thread reads what it prints.
        monkeypatch.setattr("sys.stderr", stderr)
        with pytest.raises(SystemExit) as ended:
            main(["serve", "--port", "0"])
    thread.join()

    assert ended.value.code == 0
    assert [answer.status_code for answer in answers] == [200, 200]
    body: dict[str, Any] = answers[1].json()
    assert body["decision"]["effects"] == ["Add task 'call mom'"]
    assert "server" not in answers[0].headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org", ""])
def test_without_authentication_only_loopback_is_served(cli: Cli, host: str) -> None:
    ended = cli("serve", "--host", host)

    assert (ended.code, ended.out) == (2, "")
    assert "GRAPH_AGENT_JWT_SECRET" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--no-such-option",), 2, "graph-agent: No such option: --no-such-option"),
        (("--port", "x"), 2, "graph-agent: Invalid value for '--port': "),
        (("--host", "0.0.0.0"), 2, "graph-agent: without authentication only loopback addresses are served"),
        (("--constitution", "missing.md"), 1, "graph-agent: the constitution missing.md cannot be read"),
        (("--host", "192.0.2.7.example", "--no-token"), 2, "graph-agent: without authentication"),
    ],
)
@pytest.mark.parametrize("option", [("--log-format", "json"), ("--log-format=json",)])
def test_with_json_log_lines_every_error_is_one(
    cli: Cli, option: tuple[str, ...], arguments: tuple[str, ...], code: int, message: str
) -> None:
    ended = cli("serve", *option, "--port", "0", *arguments)

    assert (ended.code, ended.out) == (code, "")
    [line] = [json.loads(line) for line in ended.err.splitlines()]
    assert (line["level"], line["logger"]) == ("error", "graph_agent.serve")
    assert line["message"].startswith(message)


def test_an_invalid_setting_is_a_json_line_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_AGENT_TIMEOUT_SECONDS", "soon")
    ended = cli("serve", "--log-format", "json")

    assert ended.code != 0
    assert "GRAPH_AGENT_TIMEOUT_SECONDS" in json.loads(ended.err)["message"]


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


def test_any_other_account_of_the_machine_is_refused_without_the_token_in_the_home_folder(home: Path, tmp_path: Path) -> None:
    command = [graph_agent(), "serve", "--port", "0", "--model", "embedded"]
    tokens: list[dict[str, str]] = []
    for options in ((), ("--no-page",)):
        log = tmp_path / "stderr"
        with log.open("wb") as errors, subprocess.Popen([*command, *options], stderr=errors) as server:
            try:
                with httpx.Client(base_url=address_of(server, log), trust_env=False, timeout=60) as client:
                    tokens.append(launch_header(home))
                    for path in ("/api/tasks", "/api/decisions", "/api/topology", "/openapi.json", "/docs", "/anything"):
                        assert client.get(path).status_code == 401, path
                    for path in ("/api/chat", "/api/chat/stream", "/agui", "/api/replay"):
                        assert client.post(path, json={"content": "add a task to call mom"}).status_code == 401, path
                    assert [client.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
                    assert client.get("/api/decisions", headers=tokens[-1]).json()["items"] == []
                    assert client.get("/api/tasks", headers={"Authorization": "Bearer guessed"}).status_code == 401
            finally:
                server.terminate()
    # A restart keeps the token.
    assert tokens[0] == tokens[1]
    assert stat.S_IMODE((home / "authorization").stat().st_mode) == 0o600


def test_without_the_token_every_program_of_the_machine_is_the_user_and_the_server_says_so(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    command = [graph_agent(), "serve", "--port", "0", "--model", "embedded", "--no-token"]
    with log.open("wb") as errors, subprocess.Popen(command, stderr=errors) as server:
        try:
            url = address_of(server, log)
            assert httpx.get(f"{url}/api/tasks", trust_env=False, timeout=60).status_code == 200
        finally:
            server.terminate()
    assert "every program that reaches this port" in log.read_text(encoding="utf-8")
    assert not (home / "authorization").exists()


def test_the_printed_link_is_the_one_of_the_public_url(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_AGENT_PUBLIC_URL", "http://localhost:8080/agent/")
    log = tmp_path / "stderr"
    command = [graph_agent(), "serve", "--port", "0", "--model", "embedded"]
    with log.open("wb") as errors, subprocess.Popen(command, stderr=errors) as server:
        try:
            opened = address_of(server, log, "open")
        finally:
            server.terminate()
    token = launch_header(home)["Authorization"].removeprefix("Bearer ")
    assert opened == f"http://localhost:8080/agent/?token={token}"


def test_without_authentication_the_public_url_is_one_of_this_machine(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_AGENT_PUBLIC_URL", "https://example.org/agent")
    ended = cli("serve")
    assert (ended.code, ended.out) == (2, "")
    assert "GRAPH_AGENT_PUBLIC_URL names example.org" in ended.err


def test_with_bearer_tokens_there_is_no_launch_token(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_AGENT_JWT_SECRET", "k" * 32)
    monkeypatch.setenv("GRAPH_AGENT_JWT_AUDIENCE", "tests")
    monkeypatch.setenv("GRAPH_AGENT_SECRET", "s" * 32)
    ended = cli("serve", "--no-token")
    assert (ended.code, "--no-token" in ended.err) == (2, True)


def test_only_the_local_user_gets_roles_and_only_those_that_conditions_can_name(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPH_AGENT_ROLES", "groups=manager")
    assert "there is no role 'boss'" in cli("serve", "--role", "boss").err
    monkeypatch.setenv("GRAPH_AGENT_JWT_SECRET", "k" * 32)
    monkeypatch.setenv("GRAPH_AGENT_JWT_AUDIENCE", "tests")
    monkeypatch.setenv("GRAPH_AGENT_SECRET", "s" * 32)
    ended = cli("serve", "--role", "manager")
    assert (ended.code, "leave --role out" in ended.err) == (2, True)


def test_a_token_file_that_others_can_read_is_refused(cli: Cli, home: Path) -> None:
    file = home / "authorization"
    file.write_text(f"Authorization: Bearer {'t' * 43}\n", encoding="utf-8")
    file.chmod(0o644)
    ended = cli("serve", "--port", "0")
    assert (ended.code, "chmod 600" in ended.err) == (1, True)

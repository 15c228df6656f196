"""The parent of worker processes, and `graph-agent serve --workers`."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph_agent.cli.workers import MAX_FAILED_STARTS, WorkerGroup
from tests import fork_server
from tests.cli.conftest import Cli
from tests.serving import address_of, launch_header


def _exit(code: int, _number: int, _listener: socket.socket, _report: Connection[str, None]) -> None:
    sys.exit(code)


def _die(_number: int, _listener: socket.socket, _report: Connection[str, None]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _serve_then_exit(code: int, _number: int, _listener: socket.socket, report: Connection[str, None]) -> None:
    report.send("a model")
    signal.sigwait({signal.SIGTERM})
    sys.exit(code)


def _serve_then_stop_the_parent(code: int, number: int, listener: socket.socket, report: Connection[str, None]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    parent = parent_process()
    assert parent is not None
    assert parent.pid is not None
    os.kill(parent.pid, signal.SIGTERM)
    _serve_then_exit(code, number, listener, report)


def _serve_unless_first(number: int, listener: socket.socket, report: Connection[str, None]) -> None:
    if number == 0:
        _die(number, listener, report)
    _serve_then_stop_the_parent(0, number, listener, report)


def run_group(count: int, target: Callable[..., object], *arguments: Any) -> tuple[int, list[str]]:
    """Return the exit code of a group of workers, and the texts that it was started with."""
    started: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return WorkerGroup(count, target, arguments, listener, started.append).run(), started


@pytest.mark.usefixtures("quick_processes")
def test_what_is_wrong_with_the_settings_is_reported_by_one_worker(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_group(3, _exit, 2) == (2, [])
    # The worker has printed its sentence itself.
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("quick_processes")
def test_workers_that_always_die_at_their_start_end_the_parent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The waits between the starts double up to seconds.
    monkeypatch.setattr("graph_agent.cli.workers.MAX_RESTART_SECONDS", 0.01)
    assert run_group(2, _die) == (1, [])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == MAX_FAILED_STARTS
    assert lines[-1] == "graph-agent: 5 workers in a row have been ended by SIGKILL before they could serve"


@pytest.mark.usefixtures("quick_processes")
def test_a_worker_that_dies_at_its_start_does_not_keep_the_others_from_serving() -> None:
    assert run_group(2, _serve_unless_first) == (0, ["a model"])


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1)])
def test_a_worker_that_leaves_a_turn_open_makes_the_parent_fail(code: int, expected: int) -> None:
    assert run_group(1, _serve_then_stop_the_parent, code) == (expected, ["a model"])


def test_several_workers_are_refused_on_sqlite(cli: Cli) -> None:
    ended = cli("serve", "--workers", "2")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "graph-agent: several workers need PostgreSQL, because SQLite has one writer: set DATABASE_URL, "
        "or serve without --workers\n"
    )


class Serving:
    """A running `graph-agent serve --workers 2`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, home: Path, database: str) -> None:
        self.process = process
        self.log = log
        self.database = database
        self.url = address_of(process, log)
        self.metrics_url = address_of(process, log, "metrics:")
        self.headers = launch_header(home)

    def workers(self) -> list[int]:
        """Return the processes that serve requests, one of which answers each request."""
        # They are found by the database in their environment: the parent is another process than the command that was started.
        found = subprocess.run(["ps", "axeww", "-o", "pid=,args="], stdout=subprocess.PIPE, check=True)
        lines = found.stdout.decode(errors="replace").splitlines()
        return [int(line.split()[0]) for line in lines if "spawn_main" in line and self.database in line]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        # The limit only ends a test that would fail anyway.
        ends = time.monotonic() + 120
        while not condition():
            assert self.process.poll() is None
            assert time.monotonic() < ends, self.log.read_text(encoding="utf-8")
            time.sleep(0.2)

    def post(self, content: str) -> httpx.Response:
        """Send a message on a connection of its own, which any worker may accept."""
        return httpx.post(f"{self.url}/api/chat", json={"content": content}, headers=self.headers, trust_env=False, timeout=60)

    def metrics(self) -> list[str]:
        return httpx.get(self.metrics_url, trust_env=False, timeout=60).text.splitlines()

    def turns(self) -> float:
        """Return the number of turns that a scrape shows."""
        return sum(float(line.rpartition(" ")[2]) for line in self.metrics() if line.startswith("graph_agent_turns_total{"))

    def measured_workers(self) -> set[str]:
        """Return the workers whose metrics a scrape shows."""
        return set(re.findall(r'graph_agent_open_turns\{worker="(\d+)"\} 0', "\n".join(self.metrics())))


@contextmanager
def serving(folder: Path, url: str, *options: str) -> Iterator[Serving]:
    log = folder / "stderr"
    environment = {**os.environ, "DATABASE_URL": url}
    command = [fork_server.graph_agent(), "serve", "--port", "0", "--workers", "2", "--model", "embedded", *options]
    command += ["--metrics-port", "0"]
    with log.open("wb") as errors, subprocess.Popen(command, stderr=errors, env=environment) as process:
        try:
            yield Serving(process, log, Path(os.environ["GRAPH_AGENT_HOME"]), url)
        finally:
            process.kill()


@pytest.mark.postgresql
def test_two_workers_serve_as_one_server(tmp_path: Path, fresh_postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_AGENT_TURNS_PER_MINUTE", "3")
    with serving(tmp_path, fresh_postgresql_url) as server:
        server.wait_for(lambda: len(server.workers()) == 2)
        server.wait_for(lambda: server.measured_workers() == {"0", "1"})
        replies = [server.post("add a task to call mom") for _ in range(8)]
        assert replies[0].json()["decision"]["effects"] == ["Add task 'call mom'"]
        # The limit of a user holds for all workers together.
        assert {reply.status_code for reply in replies} == {200, 429}
        # A scrape leaves out a worker that is too busy to answer it in time.
        server.wait_for(lambda: server.turns() == sum(reply.status_code == 200 for reply in replies))

        killed, other = server.workers()
        os.kill(killed, signal.SIGKILL)
        server.wait_for(lambda: killed not in server.workers() and len(server.workers()) == 2)
        assert other in server.workers()
        server.wait_for(lambda: server.measured_workers() == {"0", "1"})

        # Ctrl-C in a terminal reaches the parent and the workers.
        for process in (server.process.pid, *server.workers()):
            # The parent may have ended a worker before the signal is sent to it.
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGINT)
        assert server.process.wait(120) == 0
    lines = server.log.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "model: embedded: chosen on the command line"
    assert lines[1] == f"serving {server.url} (one local user, 2 workers)"
    assert lines[2] == f"metrics: {server.metrics_url}"
    assert lines[3].startswith("programs send the header in ")
    assert lines[4].startswith(f"open {server.url}/?token=") or "not built" in lines[4]
    restarted = re.compile(r"graph-agent: worker [01] has been ended by SIGKILL and is restarted in [0-9.]+ s")
    assert [line for line in lines[5:] if not restarted.fullmatch(line)] == []


@pytest.mark.postgresql
def test_workers_end_with_their_parent(tmp_path: Path, fresh_postgresql_url: str) -> None:
    with serving(tmp_path, fresh_postgresql_url) as server:
        server.wait_for(lambda: len(server.workers()) == 2)
        workers = server.workers()
        server.process.kill()
        server.process.wait()
    ends = time.monotonic() + 120
    while any(map(_is_alive, workers)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert [worker for worker in workers if _is_alive(worker)] == []


def _is_alive(process: int) -> bool:
    found = subprocess.run(["ps", "-o", "stat=", "--pid", str(process)], stdout=subprocess.PIPE, check=False)
    return found.stdout.strip()[:1] not in (b"", b"Z")

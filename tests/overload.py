"""A burst of turns at a server whose model never answers, all on connections that are opened at once.

The model is a socket that is never read.

The clients share the processors with the server. Therefore the kernel says when an answer arrived.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import selectors
import signal
import socket
import sqlite3
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fork_server import graph_agent
from tests.serving import address_of

DEADLINE_SECONDS = 8.0
RETRY_SECONDS = 1.0
"""The `Retry-After` of a refusal."""

_TCP_INFO_BYTES = 56
_LAST_DATA_RECEIVED = 52
"""Offset of `tcpi_last_data_recv` in Linux's `tcp_info`: the milliseconds since the last bytes arrived."""

_BODY = b'{"content": "add a task to call mom"}'
TURN_REQUEST = (
    b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


@dataclass(frozen=True)
class Answer:
    """The answer to one request: seconds since the burst began, and since the request was sent, until the answer arrived."""

    status: int
    at: float
    took: float
    retry_after: bool


@dataclass(frozen=True)
class Overload:
    """The figures of one burst."""

    answers: list[Answer]
    all_closed_at: float
    """The time when no row was open any more, in seconds since the burst began."""
    quick_answer_seconds: float
    """The time that `/healthz` took in the middle of the burst."""
    exit_code: int
    left_open: int
    """The number of open turns and decisions after the end of the server."""

    def statuses(self) -> dict[int, int]:
        found = [answer.status for answer in self.answers]
        return {status: found.count(status) for status in sorted(set(found))}

    def took(self, status: int) -> list[float]:
        """Return the seconds that the answers of a status took, in order."""
        return sorted(answer.took for answer in self.answers if answer.status == status)


def measure(home: Path, turns: int, deadline: float = DEADLINE_SECONDS) -> Overload:
    """Start a server in `home`, send the burst, wait until every row is closed, and end the server with SIGTERM."""
    with serving_without_a_model(home, deadline) as (server, port):
        answers, quick, all_closed_at = asyncio.run(_burst(home, port, turns, deadline))
        server.send_signal(signal.SIGTERM)
        exit_code = server.wait(60)
    return Overload(answers, all_closed_at, quick, exit_code, open_rows(home))


@contextmanager
def serving_without_a_model(home: Path, deadline: float) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a server whose model never answers, and yield it with its port; its stderr goes to a file in `home`."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as model:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GEMINI", "OPENAI", "GRAPH_"))}
        environment |= {
            "GRAPH_AGENT_HOME": str(home),
            "GRAPH_AGENT_MODEL": "openai",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{model.getsockname()[1]}/v1",
            "OPENAI_MODEL": "silent",
            "GRAPH_AGENT_TIMEOUT_SECONDS": str(deadline),
            "GRAPH_AGENT_TURNS_PER_MINUTE": "1000000",
        }
        command = [graph_agent(), "serve", "--port", "0", "--no-token"]
        with (home / "stderr").open("wb") as errors, subprocess.Popen(command, stderr=errors, env=environment) as server:
            try:
                yield server, int(address_of(server, home / "stderr").rpartition(":")[2])
            finally:
                server.kill()


async def _burst(home: Path, port: int, turns: int, deadline: float) -> tuple[list[Answer], float, float]:
    # The first turn imports the provider's SDK and opens the databases.
    await ask_for_a_turn(port)
    began = time.monotonic()
    burst = asyncio.create_task(asyncio.to_thread(send_burst, port, TURN_REQUEST, turns, 10 * deadline))
    await asyncio.sleep(deadline / 2)
    quick = await _ask(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", began)
    answers = await burst
    while open_rows(home):
        await asyncio.sleep(0.05)
        if time.monotonic() - began > 10 * deadline:
            break
    return answers, quick.took, time.monotonic() - began


def send_burst(port: int, request: bytes, count: int, seconds: float, *, repeat_seconds: float = 0.0) -> list[Answer]:
    """Send `count` requests, each on a connection of its own, and return the answers of at most `seconds`.

    For `repeat_seconds` each client sends another request: at once after an answer, and a second after a refusal. One thread on
    plain sockets: with a task for each request the clients would take longer than the server.
    """
    answers: list[Answer] = []
    sent: dict[socket.socket, float] = {}
    due = [0.0] * count
    began = time.monotonic()
    with selectors.DefaultSelector() as selector:

        def send() -> None:
            connection = socket.socket()
            connection.setblocking(False)
            at = time.monotonic()
            connection.connect_ex(("127.0.0.1", port))
            # On the loopback device a connection is made at once, unless the server's queue is full.
            connection.setblocking(True)
            connection.sendall(request)
            connection.setblocking(False)
            sent[connection] = at
            selector.register(connection, selectors.EVENT_READ)

        def receive(timeout: float) -> None:
            for key, _ in selector.select(timeout):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                try:
                    data = connection.recv(65536)
                except ConnectionError:
                    data = b""
                now = time.monotonic() - _seconds_since_arrival(connection)
                answer = _read(data, now - began, now - sent.pop(connection))
                answers.append(answer)
                if (elapsed := time.monotonic() - began) < repeat_seconds:
                    heapq.heappush(due, elapsed + (0.0 if answer.status == 200 else RETRY_SECONDS))
                selector.unregister(connection)
                connection.close()

        while (due or sent) and (now := time.monotonic() - began) < seconds:
            if due and due[0] <= now:
                heapq.heappop(due)
                send()
                if not len(sent) % 64:
                    receive(0)
            else:
                receive(0.01 if due else 1)
        for connection in sent:
            connection.close()
    return answers


async def ask_for_a_turn(port: int) -> Answer:
    return await _ask(port, TURN_REQUEST, time.monotonic())


async def _ask(port: int, request: bytes, began: float) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        sent = time.monotonic()
        writer.write(request)
        answer = await reader.read()
    except ConnectionError:
        answer = b""
    finally:
        writer.close()
    ended = time.monotonic()
    return _read(answer, ended - began, ended - sent)


def _read(answer: bytes, at: float, took: float) -> Answer:
    head = answer.partition(b"\r\n\r\n")[0].lower()
    return Answer(int(answer[9:12] or 0), at, took, b"retry-after" in head)


def _seconds_since_arrival(connection: socket.socket) -> float:
    """Return the time since the kernel received the last bytes of a connection; 0 where it does not say so."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except (AttributeError, OSError):  # Other systems have no TCP_INFO.
        return 0.0
    return float(struct.unpack_from("=I", info, _LAST_DATA_RECEIVED)[0]) / 1000 if len(info) == _TCP_INFO_BYTES else 0.0


def open_rows(home: Path) -> int:
    with closing(sqlite3.connect(home / "graph_agent.db")) as database:
        pending = database.execute("SELECT count(*) FROM decision_logs WHERE status = 'PENDING'").fetchone()[0]
        running = database.execute("SELECT count(*) FROM turns WHERE state = 'running'").fetchone()[0]
    return int(pending) + int(running)

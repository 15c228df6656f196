"""Clients that send slowly, ambiguously or nothing at all."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest

from graph_agent.api import turn_admission
from graph_agent.api.connections import ConnectionLimits
from tests.api.live_server import LiveServer, live_server

Send = Callable[[bytes], socket.socket]

_SLOW_BODY = b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"


@pytest.fixture
def request_seconds() -> float:
    """The time in which a request must arrive."""
    return 1.0


@pytest.fixture
def server(tmp_path: Path, template: Path, request_seconds: float) -> Iterator[LiveServer]:
    # As in a process: few are accepted before those that were accepted earlier are read.
    limits = ConnectionLimits(total=40, per_address=30, accepts_per_tick=4)
    with live_server(
        tmp_path, template, lambda environment: environment.runtime(), limits=limits, request_seconds=request_seconds
    ) as server:
        yield server


@pytest.fixture
def send(server: LiveServer) -> Iterator[Send]:
    """Open a connection that stays open until the test ends, and send these bytes."""
    address = httpx.URL(server.url)
    with ExitStack() as stack:

        def connected(data: bytes) -> socket.socket:
            opened = stack.enter_context(closing(socket.create_connection((address.host, address.port), timeout=30)))
            if data:
                opened.sendall(data)
            return opened

        yield connected


def _received(connection: socket.socket) -> bytes:
    """Return everything up to the end of the connection; fail if the server keeps it open."""
    received = b""
    # A connection that is closed before the server has read everything is reset.
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: loc", _SLOW_BODY], ids=["nothing", "half a header", "half a body"]
)
def test_a_request_that_does_not_arrive_in_time_ends_its_connection(send: Send, sent: bytes) -> None:
    started = time.monotonic()
    answer = _received(send(sent))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"REQUEST_TIMEOUT"' in answer
    assert time.monotonic() - started >= 0.9


def test_bytes_that_trickle_do_not_extend_the_deadline(send: Send) -> None:
    connection = send(_SLOW_BODY)
    connection.settimeout(0.1)
    received = b""
    for _ in range(300):
        try:
            received += connection.recv(65536)
            break
        except TimeoutError:
            connection.sendall(b" ")
    assert received.startswith(b"HTTP/1.1 408 ")


def test_a_second_request_of_a_connection_has_a_deadline_too(send: Send) -> None:
    connection = send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    connection.sendall(_SLOW_BODY)
    # The rest of the first answer may arrive with the second.
    assert b"HTTP/1.1 408 " in _received(connection)


def test_a_body_that_stalls_after_its_answer_ends_the_connection(send: Send) -> None:
    slow_get = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n"
    answer = _received(send(slow_get))
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_slow_bodies_take_no_place_of_a_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, template: Path) -> None:
    # Fewer slow clients than the real limit needs.
    monkeypatch.setattr(turn_admission, "MAX_OPEN_TURNS", 4)
    with (
        live_server(tmp_path, template, lambda environment: environment.runtime(), request_seconds=60.0) as server,
        ExitStack() as stack,
    ):
        address = httpx.URL(server.url)
        for _ in range(8):
            slow = stack.enter_context(closing(socket.create_connection((address.host, address.port))))
            slow.sendall(_SLOW_BODY)
        answer = server.post("/api/chat", json={"content": "show my tasks"})
        assert answer.status_code == 200


# Longer than a busy machine takes to open all connections: the first ones must end because of the limit, not of their deadline.
@pytest.mark.parametrize("request_seconds", [600.0], ids=[""])
@pytest.mark.parametrize("sent", [b"", _SLOW_BODY], ids=["idle", "slow body"])
def test_more_connections_than_the_limit_do_not_keep_others_out(server: LiveServer, send: Send, sent: bytes) -> None:
    opened = [send(sent) for _ in range(60)]
    answer = server.post("/api/chat", json={"content": "show my tasks"})
    assert answer.status_code == 200
    # The first ones had to make room: they are closed without an answer.
    assert _received(opened[0]) == b""


def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(send: Send) -> None:
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b'{"content": "hi"}'
    head = (
        b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\nContent-Length: 22\r\n\r\n"
    )
    answer = _received(send(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) + smuggled))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer.lower()

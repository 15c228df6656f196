"""The queue of requests for turns that are not parsed yet, and the refusal of the others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from graph_agent.api.acceptor import BUSY, PASSED_PER_ITERATION, Acceptor, Arrivals, is_complete, is_turn_request
from graph_agent.api.turn_admission import MAX_STARTING, TurnAdmission

BODY = b'{"content": "hello"}'
HEAD = b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(BODY)
REQUEST = HEAD + b"\r\n" + BODY


def _fill(admission: TurnAdmission) -> None:
    while admission.has_room_for_arrival(""):
        admission.arriving.take("")


def _request_of(token: str) -> bytes:
    return HEAD + f"Authorization: Bearer {token}\r\n\r\n".encode() + BODY


@pytest.mark.parametrize(
    ("data", "turn", "complete"),
    [
        (REQUEST, True, True),
        (REQUEST.replace(b"/chat ", b"/chat/stream "), True, True),
        (REQUEST.replace(b"/api/chat ", b"/agui "), True, True),
        (REQUEST[:-1], True, False),
        (REQUEST + b"GET / HTTP/1.1\r\n\r\n", True, False),
        (HEAD, True, False),
        (b"POST /api/chat HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", True, False),
        (b"GET /healthz HTTP/1.1\r\nContent-Length: 0\r\n\r\n", False, True),
        (b"", False, False),
    ],
)
def test_a_request_is_recognised_by_its_first_bytes(data: bytes, turn: bool, complete: bool) -> None:
    assert (is_turn_request(data), is_complete(data)) == (turn, complete)


async def test_a_few_requests_are_passed_on_in_each_iteration_of_the_loop() -> None:
    arrivals = Arrivals(TurnAdmission(20.0, one_user=True))
    passed: list[int] = []
    for number in range(20):
        arrivals.add(REQUEST, lambda _, number=number: passed.append(number))  # type: ignore[misc]  # `number` is bound now
    counts = []
    while len(passed) < 20:
        counts.append(len(passed))
        await asyncio.sleep(0)
    steps = {after - before for before, after in pairwise(counts)}
    assert max(steps) == PASSED_PER_ITERATION
    assert passed == list(range(20))
    assert arrivals.admission.arriving.total == 0


async def test_a_request_waits_while_enough_turns_wait_for_their_start() -> None:
    admission = TurnAdmission(20.0, one_user=True)
    arrivals, passed = Arrivals(admission), asyncio.Event()
    for _ in range(MAX_STARTING):
        admission.waiting.take("ann")
    arrivals.add(REQUEST, lambda _: passed.set())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not passed.is_set()
    admission.waiting.release("ann")
    async with asyncio.timeout(60):
        await passed.wait()


async def test_a_request_that_has_waited_for_too_long_is_refused() -> None:
    admission, passed = TurnAdmission(0.02, one_user=True), asyncio.Queue[float | None]()
    for _ in range(MAX_STARTING):
        admission.waiting.take("ann")
    Arrivals(admission).add(REQUEST, passed.put_nowait)
    async with asyncio.timeout(60):
        assert await passed.get() is None
    assert admission.arriving.total == 0


async def test_a_token_does_not_take_the_room_of_the_others() -> None:
    arrivals = Arrivals(TurnAdmission(20.0))
    while arrivals.has_room(_request_of("greedy")):
        arrivals.add(_request_of("greedy"), lambda _: None)
    assert arrivals.has_room(_request_of("modest"))


@dataclass
class Door:
    """A listening socket, its acceptor, and the clients that are connected to it."""

    address: tuple[str, int]
    acceptor: Acceptor
    clients: ExitStack
    made: list[float | None] = field(default_factory=list)
    """The argument with which each protocol was made."""

    def send(self, data: bytes) -> socket.socket:
        client = self.clients.enter_context(closing(socket.create_connection(self.address)))
        client.sendall(data)
        client.setblocking(False)
        return client


@asynccontextmanager
async def _accepting(arrivals: Arrivals) -> AsyncIterator[Door]:
    made: list[float | None] = []

    def make(waited: float | None) -> asyncio.Protocol:
        made.append(waited)
        return asyncio.Protocol()

    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as clients:
        acceptor = Acceptor(listener, make, arrivals, max_accepts=8)
        yield Door(listener.getsockname(), acceptor, clients, made)
        await acceptor.stop()


async def _answer(client: socket.socket) -> bytes:
    async with asyncio.timeout(60):
        return await asyncio.get_running_loop().sock_recv(client, 65536)


async def test_an_excess_request_is_answered_without_a_protocol() -> None:
    admission, seconds = TurnAdmission(20.0, one_user=True), list[float]()
    admission.on_refusal = seconds.append
    _fill(admission)
    async with _accepting(Arrivals(admission)) as door:
        clients = [door.send(REQUEST) for _ in range(20)]
        assert [await _answer(client) for client in clients] == [BUSY] * 20
        # The connection ends in order: the client reads the whole answer.
        assert [await _answer(client) for client in clients] == [b""] * 20
    assert door.made == []
    assert (admission.refused, len(seconds)) == (20, 20)


async def test_every_other_connection_gets_its_protocol_although_turns_are_refused() -> None:
    admission = TurnAdmission(20.0, one_user=True)
    _fill(admission)
    async with _accepting(Arrivals(admission)) as door:
        for data in (b"GET /healthz HTTP/1.1\r\n\r\n", b"", REQUEST[:30]):
            door.send(data)
        async with asyncio.timeout(60):
            while len(door.made) < 3:  # noqa: ASYNC110 (no event is set when a protocol is made)
                await asyncio.sleep(0)
    assert door.made == [None, None, None]


async def test_a_request_that_finds_room_waits_and_then_gets_its_protocol() -> None:
    async with _accepting(Arrivals(TurnAdmission(20.0, one_user=True))) as door:
        door.send(REQUEST)
        async with asyncio.timeout(60):
            while not door.made:  # noqa: ASYNC110 (no event is set when a protocol is made)
                await asyncio.sleep(0)
    assert door.made[0] is not None


async def test_a_request_that_waits_when_the_server_stops_is_refused() -> None:
    admission = TurnAdmission(20.0, one_user=True)
    for _ in range(MAX_STARTING):
        admission.waiting.take("ann")
    async with _accepting(Arrivals(admission)) as door:
        client = door.send(REQUEST)
        async with asyncio.timeout(60):
            while not admission.arriving.total:  # noqa: ASYNC110 (no event is set when a request is held)
                await asyncio.sleep(0)
        await door.acceptor.stop()
        assert await _answer(client) == BUSY
    assert door.made == []

"""The queue of requests for turns whose bytes have arrived and are not parsed yet.

Parsing a request and starting its turn keeps the event loop busy for milliseconds. If a burst were parsed at once, the requests
that must be refused would wait for all others. Therefore one request is parsed in each iteration of the loop, and a request
for which the queue has no room is refused with a fixed response, before anything is parsed, checked or stored.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from graph_agent.api.turn_admission import MAX_STARTING, TurnAdmission

WAITED = "seconds_before_parsing"
"""The key in `request.state` under which the seconds that the request waited are stored."""

PASSED_PER_ITERATION = 1
"""The number of requests that are parsed in one iteration of the event loop. Refusals are sent in between."""
_RECHECK_SECONDS = 0.005
"""The wait before the queue asks again, if enough parsed requests wait for admission already."""

_TURN_REQUESTS = (b"POST /api/chat ", b"POST /api/chat/stream ", b"POST /agui ")
_AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*([^\r\n]*)", re.IGNORECASE)
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*\r\n", re.IGNORECASE)

_TCP_INFO_BYTES = 56
_LAST_DATA_RECEIVED = 52
"""Offset of `tcpi_last_data_recv` in Linux's `tcp_info`: the milliseconds since the last bytes arrived."""


def is_turn_request(data: bytes) -> bool:
    """True if `data`, the first bytes of a request, ask for a turn."""
    return data.startswith(_TURN_REQUESTS)


def is_complete(data: bytes) -> bool:
    """True if `data` is exactly one request with a Content-Length."""
    head, end, body = data.partition(b"\r\n\r\n")
    length = _CONTENT_LENGTH.search(head + b"\r\n") if end else None
    return length is not None and len(body) == int(length[1])


def seconds_since_arrival(connection: socket.socket) -> float:
    """Return the time since the kernel received the last bytes of a connection; 0 where it does not say so."""
    if not hasattr(socket, "TCP_INFO"):
        return 0.0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return 0.0
    return float(struct.unpack_from("=I", info, _LAST_DATA_RECEIVED)[0]) / 1000 if len(info) == _TCP_INFO_BYTES else 0.0


Receive = Callable[[float | None], None]
"""Called with the seconds that a request has waited; with None if that is too long, and it must be refused."""


@dataclass(frozen=True, slots=True)
class _Arrival:
    caller: str
    at: float
    receive: Receive


class Arrivals:
    """The queue of requests for turns that are not parsed yet."""

    def __init__(self, admission: TurnAdmission) -> None:
        self.admission = admission
        self._queue: deque[_Arrival] = deque()

    def has_room(self, head: bytes) -> bool:
        """True if a request that begins with `head` may wait here. Its token stands for its user, who is not known yet."""
        return self.admission.has_room_for_arrival(_caller(head))

    def add(self, head: bytes, receive: Receive) -> None:
        """Call `receive` once the request is first in the queue and may be parsed, or once it has waited for too long."""
        loop = asyncio.get_running_loop()
        caller = _caller(head)
        self.admission.arriving.take(caller)
        if not self._queue:
            loop.call_soon(self._pass_on, loop)
        self._queue.append(_Arrival(caller, loop.time(), receive))

    def _pass_on(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        passed = 0
        while self._queue:
            waited = now - self._queue[0].at
            if waited <= self.admission.max_wait:
                if passed == PASSED_PER_ITERATION or self.admission.waiting.total >= MAX_STARTING:
                    break
                passed += 1
            arrival = self._queue.popleft()
            self.admission.arriving.release(arrival.caller)
            # Scheduled instead of called: an exception in one must not stop the others.
            loop.call_soon(arrival.receive, waited if waited <= self.admission.max_wait else None)
        if self._queue and passed:
            loop.call_soon(self._pass_on, loop)
        elif self._queue:
            loop.call_later(_RECHECK_SECONDS, self._pass_on, loop)


def _caller(head: bytes) -> str:
    token = _AUTHORIZATION.search(head)
    return "" if token is None else token[1].decode("latin-1")

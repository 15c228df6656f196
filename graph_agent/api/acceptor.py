"""The acceptance of connections: an excess request for a turn is answered as soon as its connection is accepted.

To make a transport and a protocol for a connection takes several times as long as to read a request and to send a refusal, and
the last connection of a burst would wait for all of that work. Therefore the first bytes of each connection are looked at: an
excess request for a turn is refused here, other requests for turns wait here, and any other connection gets its protocol.

Parsing a request and starting its turn keeps the event loop busy for milliseconds. If a burst were parsed at once, the requests
that must be refused would wait for all others. Therefore one request is parsed in each iteration of the loop, and a request
for which the queue has no room is refused with a fixed response, before anything is parsed, checked or stored.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from graph_agent.api.errors import busy, raw_response, service_error_response
from graph_agent.api.turn_admission import MAX_STARTING, TurnAdmission

_log = logging.getLogger(__name__)

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

BUSY = raw_response(service_error_response(busy()))
"""The response to a request that is refused before it is parsed."""
_PEEKED_BYTES = 16 * 1024
_ACCEPT_SECONDS = 0.025
"""The longest time for which connections are accepted in one iteration of the event loop."""
_RETRY_SECONDS = 1.0
"""The wait after a failure for lack of descriptors or memory."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

MakeProtocol = Callable[[float | None], asyncio.Protocol]
"""Makes the protocol of a connection; the argument is the time its first request has waited, None if it has not yet."""


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
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except (AttributeError, OSError):  # Other systems have no TCP_INFO.
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


# This exists because refusals take longer than 100 ms if uvicorn accepts a connection and parses its request, and only then
# `TurnAdmission` refuses it. Medians of `benchmarks.overload`, in turns on two busy cores: with 200 clients 50 to 80 ms here
# and 380 to 490 ms there, with 600 clients 50 to 120 ms and 580 to 940 ms. In a burst of 400 the 99th percentile is 40 to
# 210 ms here and 1.0 to 4.7 s there.
class Acceptor:
    """Accepts the connections of one listening socket."""

    def __init__(self, listener: socket.socket, make: MakeProtocol, arrivals: Arrivals | None, *, max_accepts: int) -> None:
        """At most `max_accepts` connections are accepted in one iteration, and as many wait without a protocol."""
        self._listener = listener
        self._make = make
        self._arrivals = arrivals
        self._max_accepts = max_accepts
        self._loop = asyncio.get_running_loop()
        self._held: set[socket.socket] = set()
        self._connecting: set[asyncio.Task[object]] = set()
        self._stopped = False
        listener.setblocking(False)
        self._resume()

    async def stop(self) -> None:
        """Accept no more connections, and refuse those that wait. The caller closes the listening socket."""
        self._stopped = True
        self._loop.remove_reader(self._listener)
        for connection in self._held:
            self._send_refusal(connection)
        self._held.clear()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _resume(self) -> None:
        if not self._stopped:
            self._loop.add_reader(self._listener, self._accept_waiting)

    def _accept_waiting(self) -> None:
        ends = self._loop.time() + _ACCEPT_SECONDS
        accepted = 0
        while accepted < self._max_accepts and self._loop.time() < ends:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                if exc.errno not in _EXHAUSTED:
                    raise
                _log.error("no connection can be accepted: %s", exc.strerror)
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_RETRY_SECONDS, self._resume)
                return
            connection.setblocking(False)
            accepted += not self._is_refused_or_held(connection)

    def _is_refused_or_held(self, connection: socket.socket) -> bool:
        """Refuse an excess request, or let a request wait; otherwise connect, and return False."""
        arrivals = self._arrivals
        head = b"" if arrivals is None else _peek(connection)
        # A request that has not arrived completely is left to its protocol, which reads the rest and can then refuse it.
        if arrivals is None or not is_turn_request(head) or not is_complete(head):
            self._connect(connection, None)
            return False
        if not arrivals.has_room(head):
            self._refuse(connection, arrivals)
            return True
        if len(self._held) >= self._max_accepts:
            self._connect(connection, None)
            return False
        self._held.add(connection)
        arrivals.add(head, lambda waited: self._release(connection, arrivals, waited))
        return True

    def _release(self, connection: socket.socket, arrivals: Arrivals, waited: float | None) -> None:
        if connection not in self._held:
            return
        self._held.remove(connection)
        if waited is None:
            self._refuse(connection, arrivals)
        else:
            self._connect(connection, waited)

    def _refuse(self, connection: socket.socket, arrivals: Arrivals) -> None:
        arrivals.admission.refusal(seconds_since_arrival(connection))
        self._send_refusal(connection)

    def _connect(self, connection: socket.socket, waited: float | None) -> None:
        connecting = self._loop.create_task(self._loop.connect_accepted_socket(lambda: self._make(waited), connection))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._end_connecting)

    def _end_connecting(self, connecting: asyncio.Task[object]) -> None:
        self._connecting.discard(connecting)
        if not connecting.cancelled() and (failure := connecting.exception()) is not None:
            _log.warning("an accepted connection could not be used", exc_info=failure)

    def _send_refusal(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # The client may have disconnected.
            # A connection that is closed before its request was read is reset.
            connection.recv(_PEEKED_BYTES)
            connection.send(BUSY)


def _peek(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_PEEKED_BYTES, socket.MSG_PEEK)
    except OSError:
        return b""

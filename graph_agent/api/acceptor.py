"""The acceptance of connections: an excess request for a turn is answered as soon as its connection is accepted.

To make a transport and a protocol for a connection takes several times as long as to read a request and to send a refusal, and
the last connection of a burst would wait for all of that work. Therefore the first bytes of each connection are looked at: an
excess request for a turn is refused here, other requests for turns wait here, and any other connection gets its protocol.
"""

# With uvicorn's acceptance and its `limit_concurrency`, instead of this module and `arrivals`, 99 % of the refusals came within
# 177 ms instead of 38 ms with 200 clients that ask again and again, and within 190 ms instead of 12 ms in a burst of 600.

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress

from graph_agent.api.arrivals import Arrivals, is_complete, is_turn_request, seconds_since_arrival

_log = logging.getLogger(__name__)

_PEEKED_BYTES = 16 * 1024
_ACCEPT_SECONDS = 0.025
"""The longest time for which connections are accepted in one iteration of the event loop."""
_RETRY_SECONDS = 1.0
"""The wait after a failure for lack of descriptors or memory."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

MakeProtocol = Callable[[float | None], asyncio.Protocol]
"""Makes the protocol of a connection; the argument is the time its first request has waited, None if it has not yet."""


class Acceptor:
    """Accepts the connections of one listening socket."""

    def __init__(
        self, listener: socket.socket, make: MakeProtocol, arrivals: Arrivals | None, *, max_accepts: int, refusal: bytes
    ) -> None:
        """At most `max_accepts` connections are accepted in one iteration, and as many wait without a protocol."""
        self._listener = listener
        self._make = make
        self._arrivals = arrivals
        self._max_accepts = max_accepts
        self._refusal = refusal
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
            connection.send(self._refusal)


def _peek(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_PEEKED_BYTES, socket.MSG_PEEK)
    except OSError:
        return b""

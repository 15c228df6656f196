"""The HTTP server: uvicorn with limits on connections, and with one deadline for the headers and the body of a request."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from graph_agent.api.acceptor import BUSY, WAITED, Acceptor, Arrivals, is_turn_request, seconds_since_arrival
from graph_agent.api.connections import ConnectionLimits, OpenConnections, raise_descriptor_limit
from graph_agent.api.errors import envelope, raw_response
from graph_agent.api.middleware import log_access
from graph_agent.api.turn_admission import TurnAdmission

_log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
"""The time in which a request must arrive, from its first byte (or the start of the connection) to the end of its body."""

BACKLOG = 2048
"""The number of connections that the kernel keeps until the event loop accepts them."""


class HttpServerConfig(uvicorn.Config):
    """The configuration of a server with limits on its connections."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ConnectionLimits | None = None,
        request_seconds: float = REQUEST_SECONDS,
        admission: TurnAdmission | None = None,
        **settings: Any,
    ) -> None:
        """Without `limits` the limit on descriptors is raised and used. `settings` are those of `uvicorn.Config`.

        With `admission` requests for turns are parsed a few at a time, and excess ones are refused before they are parsed.
        """
        limits = limits or ConnectionLimits.below(raise_descriptor_limit())
        super().__init__(
            app,
            http=BoundedProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=limits.accepts_per_tick,
            **settings,
        )
        self.open_connections = OpenConnections(limits)
        self.request_seconds = request_seconds
        self.arrivals = None if admission is None else Arrivals(admission)


class Server(uvicorn.Server):
    """A uvicorn server that accepts its connections itself."""

    config: HttpServerConfig

    def __init__(self, config: HttpServerConfig, on_started: Callable[[], None] = lambda: None) -> None:
        """`on_started` is called once requests are answered and signals are handled."""
        super().__init__(config)
        self._on_started = on_started
        self._acceptors: list[Acceptor] = []
        self._interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Ctrl-C reaches a worker as SIGINT from the terminal and as SIGTERM from its parent, in any order. Only the second
        # SIGINT ends the server without waiting for its requests.
        first = sig == signal.SIGINT and not self._interrupted
        self._interrupted = self._interrupted or first
        super().handle_exit(signal.SIGTERM if first else sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Without sockets uvicorn accepts no connections.
        await super().startup([])
        for listener in sockets or []:
            # A short queue would delay a burst of connections by a second.
            listener.listen(BACKLOG)
            accepts = self.config.open_connections.limits.accepts_per_tick
            self._acceptors.append(Acceptor(listener, self._make_protocol, self.config.arrivals, max_accepts=accepts))
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            await acceptor.stop()
        await super().shutdown(sockets)

    def _make_protocol(self, waited: float | None) -> BoundedProtocol:
        protocol = BoundedProtocol(self.config, self.server_state, self.lifespan.state)
        protocol.waited = waited
        return protocol


class BoundedProtocol(H11Protocol):
    """A connection that is counted, and whose requests must arrive in time."""

    config: HttpServerConfig
    waited: float | None = None
    """The seconds that the next request has waited for its turn to be parsed; None if it must still wait."""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn declares it
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if self.config.open_connections.add(self.transport, address):
            self._start_deadline()
        else:
            _log.warning("a connection is refused: all %d connections are in use", len(self.config.open_connections))
            self._close_with(BUSY, 503)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        self.config.open_connections.remove(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None and not self._is_serving:
            self._start_deadline()
        arrivals = self.config.arrivals
        if arrivals is None or self.waited is not None or not self._begins_request or not is_turn_request(data):
            self._parse(data)
        elif arrivals.has_room(data):
            # It has arrived. The rest of its body, if there is one, stays in the kernel while it waits.
            self._stop_deadline()
            self.flow.pause_reading()
            arrivals.add(data, partial(self._parse_after_wait, data, arrivals.admission))
        else:
            self._refuse(arrivals.admission)

    def _parse_after_wait(self, data: bytes, admission: TurnAdmission, waited: float | None) -> None:
        if self.transport.is_closing():
            return
        if waited is None:
            self._refuse(admission)
            return
        self.waited = waited
        self._start_deadline()
        self.flow.resume_reading()
        self._parse(data)

    def _refuse(self, admission: TurnAdmission) -> None:
        admission.refusal(seconds_since_arrival(self.transport.get_extra_info("socket")))
        self._close_with(BUSY, 503)

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        if self.waited is not None and self.cycle is not None:
            self.scope["state"][WAITED] = self.waited
            self.waited = None
        self._update_state()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_state()

    @property
    def _is_serving(self) -> bool:
        """True from the end of a request to the end of its response."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    @property
    def _begins_request(self) -> bool:
        """True if the next byte is the first one of a request."""
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _update_state(self) -> None:
        """Count the connection as one whose request is being served, or as one that waits for a request."""
        if self._is_serving:
            self._stop_deadline()
            self.config.open_connections.mark_serving(self.transport)
        else:
            self.config.open_connections.mark_waiting(self.transport)

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.config.request_seconds, self._expire)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        if self.cycle is not None and self.cycle.more_body and self.cycle.response_started:
            # The request was answered before its body was complete.
            self.transport.abort()
        else:
            self._close_with(_TIMED_OUT, 408)

    def _close_with(self, response: bytes, status: int) -> None:
        """Send an error without the application, and close the connection."""
        self.transport.write(response)
        self.transport.close()
        log_access(self.client[0] if self.client else "-", "-", "-", status, 0.0)


_TIMED_OUT = raw_response(envelope(408, "REQUEST_TIMEOUT", "The request did not arrive in time."))

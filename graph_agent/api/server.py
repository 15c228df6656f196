"""The HTTP server: uvicorn with limits on connections, and with one deadline for the headers and the body of a request."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from graph_agent.api.connections import ConnectionLimits, OpenConnections, raise_descriptor_limit
from graph_agent.api.errors import busy, envelope, raw_response, service_error_response
from graph_agent.api.middleware import log_access
from graph_agent.api.turn_admission import ARRIVED_AT

_log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
"""The time in which a request must arrive, from its first byte (or the start of the connection) to the end of its body."""

_READ_BYTES = 64 * 1024

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
        **settings: Any,
    ) -> None:
        """Without `limits` the limit on descriptors is raised and used. `settings` are those of `uvicorn.Config`."""
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


class Server(uvicorn.Server):
    """A uvicorn server that says when it has started, and that Ctrl-C in a terminal ends in order."""

    config: HttpServerConfig

    def __init__(self, config: HttpServerConfig, on_started: Callable[[], None] = lambda: None) -> None:
        """`on_started` is called once requests are answered and signals are handled."""
        super().__init__(config)
        self._on_started = on_started
        self._interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Ctrl-C reaches a worker as SIGINT from the terminal and as SIGTERM from its parent, in any order. Only the second
        # SIGINT ends the server without waiting for its requests.
        first = sig == signal.SIGINT and not self._interrupted
        self._interrupted = self._interrupted or first
        super().handle_exit(signal.SIGTERM if first else sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            # The length that uvicorn has set is the number of connections that the event loop accepts in one iteration. As a
            # queue in the kernel it is short: a burst of connections would be delayed by a second.
            listener.listen(BACKLOG)
        if self.started:
            self._on_started()


class BoundedProtocol(H11Protocol):
    """A connection that is counted, and whose requests must arrive in time."""

    config: HttpServerConfig
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn declares it
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if self.config.open_connections.add(self.transport, address):
            self._start_deadline()
        else:
            _log.warning("a connection is refused: all %d connections are in use", len(self.config.open_connections))
            with suppress(OSError):
                # A connection that is closed before its request was read is reset, and the client loses the answer.
                os.read(transport.get_extra_info("socket").fileno(), _READ_BYTES)
            self._close_with(_BUSY, 503)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        self.config.open_connections.remove(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None and not self._is_serving:
            self._start_deadline()
        super().data_received(data)
        if self._is_serving:
            self.scope["state"].setdefault(ARRIVED_AT, self.loop.time())
        self._update_state()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_state()

    @property
    def _is_serving(self) -> bool:
        """True from the end of a request to the end of its response."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

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


_BUSY = raw_response(service_error_response(busy()))
_TIMED_OUT = raw_response(envelope(408, "REQUEST_TIMEOUT", "The request did not arrive in time."))

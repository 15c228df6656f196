"""A listening socket, and a server on it that runs until it is stopped."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack

from graph_agent.api.server import BACKLOG, Server
from graph_agent.cli.running import wrong_usage
from graph_agent.errors import ConfigurationError


async def serve_until_stopped(server: Server, *listeners: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM. Raises `ConfigurationError` if the application does not start."""
    await server.serve(sockets=list(listeners))
    if not server.started:
        raise ConfigurationError("the server could not be started")


def url_of(host: str, listener: socket.socket) -> str:
    """Return the URL of a listening socket on `host`."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def parse_address(text: str, option: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, the value of `option`; otherwise exit with a usage error."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        wrong_usage(f"{option} takes HOST:PORT")
    return host.strip("[]"), int(port)


def open_listener(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a listening socket, so that a taken port is reported before anything slow starts.

    `option` is the one that takes another port. Raises `ConfigurationError`.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            stack.pop_all()  # keep it open; only a failure above closes it
    except OSError as exc:
        reason = exc.strerror or "no such address"
        advice = f" ({option} takes another one)" if exc.errno == errno.EADDRINUSE else ""
        raise ConfigurationError(f"cannot listen on {host}, port {port}: {reason}{advice}") from exc
    return listener

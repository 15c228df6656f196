"""`graph-agent serve`: the chat API."""

from __future__ import annotations

import ipaddress
import logging
import math
import socket
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

import typer

from graph_agent.cli.running import Model, opened_runtime, settings_now, tell, wrong_usage
from graph_agent.errors import ConfigurationError

if TYPE_CHECKING:
    from graph_agent.bootstrap import Runtime

_AFTER_THE_DEADLINE = 3
_BACKLOG = 512


def serve(
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8000,
    model: Model = None,
) -> None:
    """Serve the chat API until Ctrl-C or SIGTERM; running turns are finished first.

    Without bearer tokens configured (GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL) it serves one local user, and only on a
    loopback address.
    """
    settings = settings_now()
    if not settings.authenticates and not is_loopback(host):
        wrong_usage(
            f"without authentication only loopback addresses are served, and {host} is none: "
            "configure GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL first"
        )
    _log_to_stderr()
    with closing(_listening(host, port)) as listener, opened_runtime(model=model) as (runtime, run):
        shown, bound = (f"[{host}]" if ":" in host else host), listener.getsockname()[1]
        who = "bearer tokens" if settings.authenticates else "one local user, no authentication"
        tell(f"serving http://{shown}:{bound} ({who})")
        try:
            run(_serve(runtime, listener))
        except KeyboardInterrupt:
            # Uvicorn has shut down in order and then raises the signal once more.
            return


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name other than localhost could lead anywhere."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


async def _serve(runtime: Runtime, listener: socket.socket) -> None:
    # FastAPI and Uvicorn are of no use to any other command.
    import uvicorn

    from graph_agent.api.app import create_app

    config = uvicorn.Config(
        create_app(runtime),
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(runtime.engine.config.timeout_seconds) + _AFTER_THE_DEADLINE,
    )
    server = uvicorn.Server(config)
    await server.serve(sockets=[listener])
    if not server.started:
        raise ConfigurationError("the server could not be started")


def _listening(host: str, port: int) -> socket.socket:
    """A listening socket, before anything slow begins. Raises `ConfigurationError`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
            stack.pop_all()  # it stays open
    except OSError as exc:
        raise ConfigurationError(f"cannot listen on {host}, port {port}: {exc.strerror or 'no such address'}") from exc
    return listener


class _OneLine(logging.Formatter):
    """A record on one line, whatever is in it: a message cannot forge another one."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).encode("unicode_escape").decode("ascii")


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)

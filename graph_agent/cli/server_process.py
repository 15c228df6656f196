"""A process that serves the API on a listening socket: the only one of a server, or one of its workers."""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

import typer

from graph_agent.api.app import create_app
from graph_agent.api.launch_session import LaunchSession
from graph_agent.api.metrics import WorkerMetrics
from graph_agent.api.server import HttpServerConfig, Server
from graph_agent.api.services import services_of
from graph_agent.api.static_page import read_page
from graph_agent.cli.listening import serve_until_stopped
from graph_agent.cli.log_lines import LogFormat, LogLevel, log_to_collector, log_to_stderr
from graph_agent.cli.running import DONE, FAILED, configure_logging, print_error, report_failures
from graph_agent.cli.runtime import open_command_runtime
from graph_agent.settings import Settings

SWITCH_SECONDS = 0.0005
_SHUTDOWN_MARGIN_SECONDS = 3
"""On shutdown a running turn gets its whole time limit, and this many seconds more to store and send its decision."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of `serve` that each of its processes needs. They are sent to a worker, so they can be pickled."""

    settings: Settings
    model: str | None
    with_page: bool
    session: LaunchSession | None
    """The session of the clients that know the launch token; None with bearer tokens, and if no token is required."""
    log_level: LogLevel
    log_format: LogFormat
    access_log: bool
    workers: int = 1
    metrics_folder: Path | None = None
    """The folder through which several workers exchange their metrics."""
    metrics_listener: socket.socket | None = None
    """The listening socket on which the metrics are served, if they are."""


def run_server(
    options: ServerOptions,
    listener: socket.socket,
    on_started: Callable[[str], None],
    *,
    number: int = 0,
    stopped_by: int | None = None,
) -> int:
    """Serve until a signal, and return the exit code. `on_started` is called with the model and why it was chosen.

    `number` tells the workers of a server apart.
    The server also stops when the descriptor `stopped_by` becomes readable. Raises `ConfigurationError`.
    """
    settings = options.settings
    log_to_stderr(options.log_level, options.log_format, access_log=options.access_log)
    # The event loop gives up the interpreter lock at each system call; a database thread then keeps it for this long.
    sys.setswitchinterval(SWITCH_SECONDS)
    with (
        log_to_collector(enabled=settings.otel),
        closing(listener),
        open_command_runtime(settings, model=options.model, announce=False, workers=options.workers) as (runtime, run),
    ):
        page = read_page() if options.with_page else None
        listeners = [listener] if options.metrics_listener is None else [listener, options.metrics_listener]
        metrics_port = None if options.metrics_listener is None else options.metrics_listener.getsockname()[1]

        def announce() -> None:
            # The modules are never garbage, but a full collection in a burst would stop all requests while it walks them.
            gc.collect()
            gc.freeze()
            on_started(runtime.adapter_reason)

        exchange = None if options.metrics_folder is None else WorkerMetrics(options.metrics_folder, number)
        app = create_app(runtime, page, options.session, metrics_port=metrics_port, worker_metrics=exchange)
        grace = math.ceil(runtime.engine.config.timeout_seconds) + _SHUTDOWN_MARGIN_SECONDS
        services = services_of(app)
        config = HttpServerConfig(app, admission=services.turn_admission, lifespan="on", timeout_graceful_shutdown=grace)
        server = Server(config, announce)
        # Uvicorn shuts down in order and then raises the signal once more.
        with suppress(KeyboardInterrupt):
            run(_serve(server, listeners, stopped_by))
        count = services.open_turns
    if count != 0:
        print_error(f"{'an unknown number of' if count is None else count} turns were left open")
        return FAILED
    return DONE


async def _serve(server: Server, listeners: list[socket.socket], stopped_by: int | None) -> None:
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        if stopped_by is not None:
            loop.add_reader(stopped_by, setattr, server, "should_exit", True)
            stack.callback(loop.remove_reader, stopped_by)
        await serve_until_stopped(server, *listeners)


def run_worker(options: ServerOptions, number: int, listener: socket.socket, report: Connection[str, None]) -> NoReturn:
    """Serve until the parent sends a signal or dies; send the chosen model to the parent once requests are answered."""
    configure_logging(as_json=options.log_format is LogFormat.JSON)
    parent = parent_process()
    assert parent is not None
    with report_failures():
        try:
            # Without its parent a worker would keep the port, and nothing would stop it.
            code = run_server(options, listener, report.send, number=number, stopped_by=parent.sentinel)
        except typer.Exit as wrong_usage:
            code = wrong_usage.exit_code
    sys.exit(code)

"""`graph-agent serve`: the chat API and the page over HTTP, in one process or in several workers."""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NoReturn
from urllib.parse import urlsplit

import typer

from graph_agent.api.app import create_app
from graph_agent.api.launch_session import LaunchSession
from graph_agent.api.server import HttpServerConfig, Server
from graph_agent.api.services import services_of
from graph_agent.api.static_page import is_built, read_page
from graph_agent.api.worker_metrics import WorkerMetrics
from graph_agent.bootstrap.agent_services import open_services
from graph_agent.bootstrap.secret import launch_token, token_file
from graph_agent.cli.listening import open_listener, serve_until_stopped, url_of
from graph_agent.cli.log_lines import LogFormat, LogLevel, log_to_collector, log_to_stderr
from graph_agent.cli.options import Model, NoToken, known_roles, replace_parameter, with_rules
from graph_agent.cli.running import (
    DONE,
    FAILED,
    configure_logging,
    open_in_loop,
    print_error,
    print_stderr,
    report_failures,
    wrong_usage,
)
from graph_agent.cli.runtime import check_model, open_command_runtime
from graph_agent.cli.workers import WorkerGroup
from graph_agent.db import dialect_of
from graph_agent.net.addresses import is_loopback
from graph_agent.settings import Settings

SWITCH_SECONDS = 0.0005
_START_SECONDS = 2.0
"""The page is served after this time at the latest, and says which MCP servers are still starting."""
_SHUTDOWN_MARGIN_SECONDS = 3
"""On shutdown a running turn gets its whole time limit, and this many seconds more to store and send its decision."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of `serve`, besides its settings."""

    host: Annotated[str, typer.Option("--host", help="Listen on this address.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 8000
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=256, help="Serve in this many processes; more than one requires PostgreSQL.")
    ] = 1
    model: Model = None
    no_page: Annotated[
        bool, typer.Option("--no-page", help="Serve the API only; the path / then lists its routes as JSON.")
    ] = False
    no_token: NoToken = False
    role: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="ROLE", help="Give the local user this role, to try conditions; may be repeated."),
    ] = None
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", min=0, max=65535, help="Serve /metrics on this port (default: nowhere).")
    ] = None
    log_level: Annotated[
        LogLevel,
        typer.Option("--log-level", metavar="LEVEL", help="Write log lines from this level on: debug, info, warning, error."),
    ] = "warning"
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", metavar="FORMAT", help="Write log lines in this form: text or json.")
    ] = "text"
    access_log: Annotated[bool, typer.Option("--access-log", help="Log each request, without its query string.")] = False


@dataclass(frozen=True, slots=True)
class ServerTask:
    """The settings and options of each process of a server. It is sent to a worker, so it can be pickled."""

    settings: Settings
    options: ServerOptions
    session: LaunchSession | None
    """The session of the clients that know the launch token; None with bearer tokens, and if no token is required."""
    metrics_folder: Path | None
    """The folder through which several workers exchange their metrics."""
    metrics_listener: socket.socket | None
    """The listening socket on which the metrics are served, if they are."""


@with_rules()
@replace_parameter("options", ServerOptions)
def serve(*, options: ServerOptions, settings: Settings) -> None:
    """Serve the chat API and the page until Ctrl-C or SIGTERM; running turns are finished first.

    Without bearer tokens configured (GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL) it serves one local user on a loopback
    address. Every client then needs the launch token, which is kept in a file of GRAPH_AGENT_HOME.
    """
    host, workers = options.host, options.workers
    if not settings.authenticates and not is_loopback(host):
        wrong_usage(
            f"without authentication only loopback addresses are served, and {host} is not one: "
            "configure GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL first"
        )
    public_host = urlsplit(settings.public_url or "").hostname
    if public_host and not settings.authenticates and not is_loopback(public_host):
        wrong_usage(f"without authentication only localhost is served, and GRAPH_AGENT_PUBLIC_URL names {public_host}")
    if workers > 1 and dialect_of(settings.database) != "postgresql":
        wrong_usage(
            "several workers need PostgreSQL, because SQLite has one writer: set DATABASE_URL, or serve without --workers"
        )
    if options.no_token and settings.authenticates:
        wrong_usage("with bearer tokens there is no launch token: leave --no-token out")
    if options.role and settings.authenticates:
        wrong_usage("with bearer tokens each user has the roles of the token: leave --role out")
    known_roles(settings.role_names, options.role)
    with ExitStack() as stack:
        listener = stack.enter_context(closing(open_listener(host, options.port)))
        metrics = None
        if options.metrics_port is not None:
            metrics = stack.enter_context(closing(open_listener(host, options.metrics_port, "--metrics-port")))
        folder = stack.enter_context(TemporaryDirectory(prefix="graph-agent-"))
        session = None if options.no_token or settings.authenticates else LaunchSession(launch_token(settings))
        task = ServerTask(settings, options, session, None if workers == 1 else Path(folder), metrics)
        announce = partial(_announce, task, listener)
        if workers == 1:
            code = run_server(task, listener, announce)
        else:
            _migrate(settings, options)
            code = WorkerGroup(workers, run_worker, (task,), listener, announce).run()
    raise typer.Exit(code)


def _migrate(settings: Settings, options: ServerOptions) -> None:
    """Migrate the database and report what is wrong with the settings, before each worker would."""
    check_model(settings, options.model)
    with open_in_loop(open_services(settings)):
        pass


def _announce(task: ServerTask, listener: socket.socket, model: str) -> None:
    """Print the model, the address and the link of the page."""
    options, url = task.options, url_of(task.options.host, listener)
    print_stderr(f"model: {model}")
    print_stderr(f"serving {url} ({_users(task)}{'' if options.workers == 1 else f', {options.workers} workers'})")
    if task.metrics_listener is not None:
        print_stderr(f"metrics: {url_of(options.host, task.metrics_listener)}/metrics")
    if task.session is not None:
        print_stderr(f"programs send the header in {token_file(task.settings)}")
    if not options.no_page:
        print_stderr(_how_to_open(task.session, task.settings.public_url or url))


def _users(task: ServerTask) -> str:
    if task.settings.authenticates:
        return "bearer tokens"
    roles = f" with the role{'s' * (len(task.options.role) > 1)} {', '.join(task.options.role)}" if task.options.role else ""
    return f"one local user{roles}" + ("" if task.session is not None else ": every program that reaches this port")


def _how_to_open(session: LaunchSession | None, url: str) -> str:
    """Return the line that says how to open the page."""
    if not is_built():
        return "the page is not built, so only the API is served: `make page` builds it"
    return f"open {url}/" if session is None else f"open {url}/?token={session.token}"


def run_server(
    task: ServerTask,
    listener: socket.socket,
    on_started: Callable[[str], None],
    *,
    number: int = 0,
    stopped_by: int | None = None,
) -> int:
    """Serve until a signal, and return the exit code. `on_started` is called with the model and why it was chosen.

    `number` distinguishes the workers of a server.
    The server also stops when the descriptor `stopped_by` becomes readable. Raises `ConfigurationError`.
    """
    settings, options = task.settings, task.options
    log_to_stderr(options.log_level, options.log_format, access_log=options.access_log)
    # The event loop gives up the interpreter lock at each system call; a database thread then keeps it for this long.
    sys.setswitchinterval(SWITCH_SECONDS)
    with (
        log_to_collector() if settings.otel else nullcontext(),
        closing(listener),
        open_command_runtime(
            settings,
            model=options.model,
            announce=False,
            workers=options.workers,
            # A worker that failed while it serves would be started again, and fail again.
            start_seconds=_START_SECONDS if options.workers == 1 else None,
        ) as (runtime, run),
    ):
        page = read_page() if not options.no_page else None
        listeners = [listener] if task.metrics_listener is None else [listener, task.metrics_listener]
        metrics_port = None if task.metrics_listener is None else task.metrics_listener.getsockname()[1]

        def announce() -> None:
            # The modules are never garbage, but a full collection in a burst would stop all requests while it walks them.
            gc.collect()
            gc.freeze()
            on_started(runtime.adapter_reason)

        exchange = None if task.metrics_folder is None else WorkerMetrics(task.metrics_folder, number)
        app = create_app(
            runtime, page, task.session, metrics_port=metrics_port, worker_metrics=exchange, local_roles=options.role or ()
        )
        grace = math.ceil(runtime.engine.config.timeout_seconds) + _SHUTDOWN_MARGIN_SECONDS
        services = services_of(app)
        config = HttpServerConfig(app, lifespan="on", timeout_graceful_shutdown=grace)
        server = Server(config, announce)
        # Uvicorn shuts down in order and then raises the signal once more.
        with suppress(KeyboardInterrupt):
            run(_serve(server, listeners, stopped_by, runtime.started))
        if runtime.started is not None and _failed(runtime.started):
            runtime.started.result()
        count = services.open_turns
    if count != 0:
        print_error(f"{'an unknown number of' if count is None else count} turns were left open")
        return FAILED
    return DONE


def _failed(task: asyncio.Future[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


async def _serve(
    server: Server, listeners: list[socket.socket], stopped_by: int | None, started: asyncio.Future[None] | None
) -> None:
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        if started is not None:
            # An MCP server that does not fit the constitution ends this server as it does at its start.
            started.add_done_callback(lambda task: setattr(server, "should_exit", server.should_exit or _failed(task)))
        if stopped_by is not None:
            loop.add_reader(stopped_by, setattr, server, "should_exit", True)
            stack.callback(loop.remove_reader, stopped_by)
        await serve_until_stopped(server, *listeners)


def run_worker(task: ServerTask, number: int, listener: socket.socket, report: Connection[str, None]) -> NoReturn:
    """Serve until the parent sends a signal or dies; send the chosen model to the parent once requests are answered."""
    configure_logging(as_json=task.options.log_format == "json")
    parent = parent_process()
    assert parent is not None
    with report_failures():
        try:
            # Without its parent a worker would keep the port, and nothing would stop it.
            code = run_server(task, listener, report.send, number=number, stopped_by=parent.sentinel)
        except typer.Exit as ended:
            code = ended.exit_code
    sys.exit(code)

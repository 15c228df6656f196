"""`graph-agent serve`: the chat API and the page over HTTP."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from graph_agent.api.launch_session import LaunchSession
from graph_agent.api.static_page import is_built
from graph_agent.bootstrap.secret import launch_token, token_file
from graph_agent.cli.files import with_files
from graph_agent.cli.listening import open_listener, url_of
from graph_agent.cli.log_lines import LogFormat, LogLevel
from graph_agent.cli.options import Model, NoToken
from graph_agent.cli.running import print_stderr, wrong_usage
from graph_agent.cli.server_process import ServerOptions, run_server, run_worker
from graph_agent.cli.workers import WorkerGroup
from graph_agent.db import dialect_of
from graph_agent.net.addresses import is_loopback
from graph_agent.settings import Settings


@with_files()
def serve(
    host: Annotated[str, typer.Option("--host", help="Listen on this address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 8000,
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=256, help="Serve in this many processes; more than one requires PostgreSQL.")
    ] = 1,
    model: Model = None,
    *,
    settings: Settings,
    no_page: Annotated[
        bool, typer.Option("--no-page", help="Serve the API only; the path / then lists its routes as JSON.")
    ] = False,
    no_token: NoToken = False,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", min=0, max=65535, help="Serve /metrics on this port (default: nowhere).")
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="Write log lines of this level and above.")
    ] = LogLevel.WARNING,
    log_format: Annotated[LogFormat, typer.Option("--log-format", help="Write log lines as text or JSON.")] = LogFormat.TEXT,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log each request, without its query string.")] = False,
) -> None:
    """Serve the chat API and the page until Ctrl-C or SIGTERM; running turns are finished first.

    Without bearer tokens configured (GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL) it serves one local user on a loopback
    address. Every client then needs the launch token, which is kept in a file of GRAPH_AGENT_HOME.
    """
    if not settings.authenticates and not is_loopback(host):
        wrong_usage(
            f"without authentication only loopback addresses are served, and {host} is not one: "
            "configure GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL first"
        )
    if workers > 1 and dialect_of(settings.database) != "postgresql":
        wrong_usage(
            "several workers need PostgreSQL, because SQLite has one writer: set DATABASE_URL, or serve without --workers"
        )
    if no_token and settings.authenticates:
        wrong_usage("with bearer tokens there is no launch token: leave --no-token out")
    with ExitStack() as stack:
        listener = stack.enter_context(closing(open_listener(host, port)))
        metrics = None
        if metrics_port is not None:
            metrics = stack.enter_context(closing(open_listener(host, metrics_port, "--metrics-port")))
        folder = stack.enter_context(TemporaryDirectory(prefix="graph-agent-"))
        options = ServerOptions(
            settings,
            model,
            with_page=not no_page,
            session=None if no_token or settings.authenticates else LaunchSession(launch_token(settings)),
            log_level=log_level,
            log_format=log_format,
            access_log=access_log,
            workers=workers,
            metrics_folder=None if workers == 1 else Path(folder),
            metrics_listener=metrics,
        )
        announce = partial(_announce, options, host, listener)
        if workers == 1:
            code = run_server(options, listener, announce)
        else:
            code = WorkerGroup(workers, run_worker, (options,), listener, announce).run()
    raise typer.Exit(code)


def _announce(options: ServerOptions, host: str, listener: socket.socket, model: str) -> None:
    """Print the model, the address and the link of the page."""
    url = url_of(host, listener)
    print_stderr(f"model: {model}")
    print_stderr(f"serving {url} ({_users(options)}{'' if options.workers == 1 else f', {options.workers} workers'})")
    if options.metrics_listener is not None:
        print_stderr(f"metrics: {url_of(host, options.metrics_listener)}/metrics")
    if options.session is not None:
        print_stderr(f"programs send the header in {token_file(options.settings)}")
    if options.with_page:
        print_stderr(_how_to_open(options.session, url))


def _users(options: ServerOptions) -> str:
    if options.settings.authenticates:
        return "bearer tokens"
    return "one local user" if options.session is not None else "one local user: every program that reaches this port"


def _how_to_open(session: LaunchSession | None, url: str) -> str:
    """Return the line that says how to open the page."""
    if not is_built():
        return "the page is not built, so only the API is served: `make page` builds it"
    return f"open {url}/" if session is None else f"open {url}/?token={session.token}"

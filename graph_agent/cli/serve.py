"""`graph-agent serve`: the chat API and the page over HTTP."""

from __future__ import annotations

import gc
import math
import sys
from contextlib import closing, suppress
from typing import Annotated

import typer

from graph_agent.api.app import create_app
from graph_agent.api.server import Server, ServerConfig
from graph_agent.api.static_page import LaunchSession, Page, read_page
from graph_agent.cli.files import command_settings
from graph_agent.cli.listening import open_listener, serve_until_stopped
from graph_agent.cli.log_lines import LogFormat, LogLevel, log_to_collector, log_to_stderr
from graph_agent.cli.loopback import is_loopback
from graph_agent.cli.running import FAILED, ConstitutionFile, Mcp, Model, print_stderr, wrong_usage
from graph_agent.cli.runtime import open_command_runtime

SWITCH_SECONDS = 0.0005
_SHUTDOWN_MARGIN_SECONDS = 3
"""On shutdown a running turn gets its whole time limit, and this many seconds more to store and send its decision."""


def serve(
    host: Annotated[str, typer.Option("--host", help="Listen on this address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 8000,
    model: Model = None,
    mcp: Mcp = None,
    constitution: ConstitutionFile = None,
    no_page: Annotated[
        bool, typer.Option("--no-page", help="Serve the API only; the path / then lists its routes as JSON.")
    ] = False,
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="Log from this level on.")] = LogLevel.WARNING,
    log_format: Annotated[LogFormat, typer.Option("--log-format", help="Write log lines as text or JSON.")] = LogFormat.TEXT,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log each request, without its query string.")] = False,
) -> None:
    """Serve the chat API and the page until Ctrl-C or SIGTERM; running turns are finished first.

    Without bearer tokens configured (GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL) it serves one local user, and only on a
    loopback address.
    """
    settings = command_settings(mcp, constitution)
    if not settings.authenticates and not is_loopback(host):
        wrong_usage(
            f"without authentication only loopback addresses are served, and {host} is not one: "
            "configure GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL first"
        )
    log_to_stderr(log_level, log_format, access_log=access_log)
    # The event loop gives up the interpreter lock at each system call; a database thread then keeps it for this long.
    sys.setswitchinterval(SWITCH_SECONDS)
    with (
        log_to_collector(enabled=settings.otel),
        closing(open_listener(host, port)) as listener,
        open_command_runtime(settings, model=model) as (runtime, run),
    ):
        shown, bound = (f"[{host}]" if ":" in host else host), listener.getsockname()[1]
        who = "bearer tokens" if settings.authenticates else "one local user, no authentication"
        url = f"http://{shown}:{bound}"
        page = None if no_page else read_page(None if settings.authenticates else LaunchSession())

        def announce() -> None:
            # The modules are never garbage, but a full collection in a burst would stop all requests while it walks them.
            gc.collect()
            gc.freeze()
            print_stderr(f"serving {url} ({who})")
            if not no_page:
                print_stderr(_how_to_open(page, url))

        app = create_app(runtime, page, with_metrics=True)
        grace = math.ceil(runtime.engine.config.timeout_seconds) + _SHUTDOWN_MARGIN_SECONDS
        config = ServerConfig(app, admission=app.state.turn_admission, lifespan="on", timeout_graceful_shutdown=grace)
        # Uvicorn shuts down in order and then raises the signal once more.
        with suppress(KeyboardInterrupt):
            run(serve_until_stopped(Server(config, announce), listener))
        if app.state.open_turns != 0:
            count = app.state.open_turns
            print_stderr(f"graph-agent: {'an unknown number of' if count is None else count} turns were left open")
            raise typer.Exit(FAILED)


def _how_to_open(page: Page | None, url: str) -> str:
    """Return the line that says how to open the page."""
    if page is None:
        return "the page is not built, so only the API is served: `make page` builds it"
    return f"open {url}/" if page.session is None else f"open {url}/?token={page.session.token}"

"""The entry point of a worker process of `graph-agent serve --workers N`."""

from __future__ import annotations

import socket
import sys
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from typing import NoReturn

import typer

from graph_agent.cli.failures import report_failures
from graph_agent.cli.log_lines import LogFormat
from graph_agent.cli.running import configure_logging
from graph_agent.cli.server_process import ServerOptions, run_server


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

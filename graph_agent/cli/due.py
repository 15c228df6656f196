"""`graph-agent due`: the work that waits, and another try for what is stuck."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.bootstrap.operator_stores import open_for_operator
from graph_agent.cli.options import AsJson
from graph_agent.cli.running import open_in_loop
from graph_agent.cli.show import json_line
from graph_agent.due.depth import DueRow, find_rows
from graph_agent.due.table import DueTable
from graph_agent.errors import ConfigurationError
from graph_agent.reply.text import visible
from graph_agent.settings import read_settings


def list_due(
    stuck: Annotated[bool, typer.Option("--stuck", help="List only what was tried for the last time.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="List at most so many rows.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the work that waits: what is stuck, then what is due next.

    A server does it. What is stuck is left until you say `graph-agent due retry KIND KEY`.
    """
    with open_in_loop(open_for_operator(read_settings())) as (database, _):
        found = database.read_now(lambda connection: find_rows(connection, stuck=stuck, limit=limit))
    if not found and not as_json:
        typer.echo("Nothing is stuck." if stuck else "Nothing waits.")
    for row in found:
        typer.echo(json_line(_fields(row)) if as_json else visible(_line(row)))


def retry(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The kind, as `due list` prints it.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key, as `due list` prints it.")],
) -> None:
    """Make work due now, as if it was not tried. A server does it within seconds."""
    with open_in_loop(open_for_operator(read_settings())) as (database, _):
        if not database.write_now(lambda connection: DueTable(database).retry(connection, kind, key)):
            raise ConfigurationError(f"there is no work {kind} {key}: `graph-agent due list` prints what waits")
    typer.echo(f"{visible(f'{kind} {key}')} is due now")


def _fields(row: DueRow) -> dict[str, object]:
    return {
        "kind": row.kind,
        "key": row.key,
        "lane": row.lane,
        "user": row.user_id,
        "due_at": None if row.due_at is None else row.due_at.isoformat(),
        "attempts": row.attempts,
        "running": row.running,
        "error": row.error,
    }


def _line(row: DueRow) -> str:
    when = "stuck" if row.due_at is None else f"{'running, else ' if row.running else ''}due {row.due_at:%Y-%m-%d %H:%M:%S} UTC"
    lane = f" in {row.lane}" if row.lane else ""
    user = f", for {row.user_id}" if row.user_id else ""
    error = f" ({row.error})" if row.error else ""
    return f"{row.kind} {row.key}{lane}: {when}, tried {row.attempts}x{user}{error}"

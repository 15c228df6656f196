"""`graph-agent db`: the tables of the database, and its copies."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from graph_agent.bootstrap.copying import SHIPPED_TOOLS, copy_database
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.options import AsJson
from graph_agent.cli.running import DONE, FAILED, checking, open_in_loop
from graph_agent.cli.show import json_line
from graph_agent.cli.verification import print_report
from graph_agent.settings import read_settings


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Copy the database at this URL, as in DATABASE_URL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Write to the database at this URL, which must be empty.")],
    as_json: AsJson = False,
) -> None:
    """Copy everything in a database to an empty one.

    That is conversations, the record, and the tasks and operations of the shipped tools. It copies one snapshot, completely
    or not at all, and verifies the record. Exits with 1 if the copy is not intact, and with 3 if it could not be made or
    checked.
    """
    with checking():
        counts, report = asyncio.run(copy_database(read_settings(), source, target))
    if as_json:
        typer.echo(json_line({"rows": counts, "log": None if report is None else report.to_json()}))
    else:
        for table, rows in counts.items():
            if rows == 0 and table in SHIPPED_TOOLS:
                continue
            typer.echo(f"{table:<24}{rows:>10,} rows")
        if report is not None:
            print_report(report)
    raise typer.Exit(DONE if report is None or report.intact else FAILED)


def migrate() -> None:
    """Create the tables of the database, or update them to this version.

    Every command does so when it starts. Run it alone before the replicas of a new version start.
    """
    with open_in_loop(open_stores(read_settings())):
        typer.echo("The database has the tables of this version.")

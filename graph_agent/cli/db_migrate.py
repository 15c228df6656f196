"""`graph-agent db migrate`: bring the database to this version."""

from __future__ import annotations

import typer

from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.running import open_in_loop
from graph_agent.settings import read_settings


def migrate() -> None:
    """Create the tables of the database, or update them to this version.

    Every command does so when it starts. Run it alone before the replicas of a new version start.
    """
    with open_in_loop(open_stores(read_settings())):
        typer.echo("The database has the tables of this version.")

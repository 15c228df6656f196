"""`graph-agent constitution show`: print the constitution. It asks no server, so it loads none."""

from __future__ import annotations

import typer

from graph_agent.cli.options import with_files
from graph_agent.policy.constitution import Constitution
from graph_agent.settings import Settings


@with_files("constitution")
def show_constitution(settings: Settings) -> None:
    """Print the constitution of the settings here, as a start for yours.

    It is the shipped one, unless GRAPH_AGENT_CONSTITUTION or --constitution names a file. What is in force is printed by
    `rules show`.
    """
    typer.echo(Constitution.load(settings.constitution).text, nl=False)

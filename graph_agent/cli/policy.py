"""`graph-agent policy`: write, check and explain the file of conditions, in Cedar."""

from __future__ import annotations

import typer

from graph_agent.bootstrap.policies import draft_conditions, explained_conditions, load_policy
from graph_agent.cli.files import run_with_database, with_files
from graph_agent.policy.cedar.schema import ToolAction, cedar_schema
from graph_agent.reply.text import visible
from graph_agent.settings import Settings


@with_files("mcp", "constitution")
def new(settings: Settings) -> None:
    """Print a file of conditions for the tools, with commented examples."""
    typer.echo(draft_conditions(_actions(settings), settings.role_names), nl=False)


@with_files("mcp", "constitution")
def schema(settings: Settings) -> None:
    """Print the Cedar schema of the tools, for an editor and for Cedar's own tools."""
    typer.echo(cedar_schema(_actions(settings), settings.role_names), nl=False)


@with_files()
def check(settings: Settings) -> None:
    """Explain a file of conditions: the rules for each tool, and what rules cannot see.

    Exits with 1 if a rule does not fit the tools.
    """
    for line in explained_conditions(run_with_database(load_policy, settings)):
        typer.echo(visible(line))


def _actions(settings: Settings) -> list[ToolAction]:
    """Return the actions of the tools that are served now, whatever the conditions are."""
    return run_with_database(load_policy, settings.model_copy(update={"policy": None})).actions

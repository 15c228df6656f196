"""`graph-agent policy`: write, check and explain the file of conditions, in Cedar."""

from __future__ import annotations

import typer

from graph_agent.bootstrap.policies import draft_conditions, explained_conditions, load_policy
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.files import command_settings
from graph_agent.cli.running import ConstitutionFile, Mcp, PolicyFile, open_in_loop
from graph_agent.policy.cedar.schema import cedar_schema
from graph_agent.policy.rules import Policy
from graph_agent.reply.text import visible
from graph_agent.settings import Settings


def new(mcp: Mcp = None, constitution: ConstitutionFile = None) -> None:
    """Print a file of conditions for the tools, with commented examples."""
    settings = command_settings(mcp, constitution).model_copy(update={"policy": None})
    typer.echo(draft_conditions(read_policy(settings).actions, settings.role_names), nl=False)


def schema(mcp: Mcp = None, constitution: ConstitutionFile = None) -> None:
    """Print the Cedar schema of the tools, for an editor and for Cedar's own tools."""
    settings = command_settings(mcp, constitution).model_copy(update={"policy": None})
    typer.echo(cedar_schema(read_policy(settings).actions, settings.role_names), nl=False)


def check(mcp: Mcp = None, constitution: ConstitutionFile = None, policy: PolicyFile = None) -> None:
    """Explain a file of conditions: the rules for each tool, and what rules cannot see.

    Exits with 1 if a rule does not fit the tools.
    """
    for line in explained_conditions(read_policy(command_settings(mcp, constitution, policy))):
        typer.echo(visible(line))


def read_policy(settings: Settings) -> Policy:
    """Return the policy of `settings` for the tools that are served now."""
    with open_in_loop(open_stores(settings)) as (stores, run):
        found: Policy = run(load_policy(settings, stores.database))
    return found

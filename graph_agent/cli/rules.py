"""`graph-agent constitution` and `graph-agent policy`: write and explain the files that say what may be done."""

from __future__ import annotations

import typer

from graph_agent.bootstrap.definitions import draft_constitution, explain_constitution
from graph_agent.bootstrap.policies import draft_conditions, explained_conditions, load_policy
from graph_agent.bootstrap.rule_settings import constitution_of
from graph_agent.cli.database import run_with_database
from graph_agent.cli.options import with_files
from graph_agent.cli.running import DONE, FAILED, print_error
from graph_agent.policy.cedar.schema import ToolAction, cedar_schema
from graph_agent.reply.text import visible
from graph_agent.settings import Settings


@with_files("mcp")
def new_constitution(settings: Settings) -> None:
    """Print a constitution that lists every tool of the MCP servers.

    Every tool is marked with (requires confirmation), but for those that a trusted server declares as a read. What another
    server says about its tools is a comment: read it, then delete it, because the model reads it too.
    """
    text, left_out = run_with_database(draft_constitution, settings)
    typer.echo(text, nl=False)
    for name, reason in left_out.items():
        print_error(f"the tool {name!a} is left out: {reason}")


@with_files()
def check_constitution(settings: Settings) -> None:
    """Explain a constitution line by line: what each tool may do, what it promises, and which facts are read for its calls.

    Exits with 1 if the constitution and the servers do not fit together, or if a server does not answer.
    """
    lines, problems = run_with_database(explain_constitution, settings)
    for line in lines:
        typer.echo(visible(line))
    for problem in problems:
        print_error(problem)
    raise typer.Exit(FAILED if problems else DONE)


@with_files("mcp", "constitution")
def new_policy(settings: Settings) -> None:
    """Print a conditions file for the tools, with commented examples."""
    facts = constitution_of(settings).facts
    typer.echo(draft_conditions(_actions(settings), settings.role_names, facts), nl=False)


@with_files("mcp", "constitution")
def schema(settings: Settings) -> None:
    """Print the Cedar schema of the tools, for an editor and for Cedar's own tools."""
    typer.echo(cedar_schema(_actions(settings), settings.role_names), nl=False)


@with_files()
def check_policy(settings: Settings) -> None:
    """Explain a conditions file: those for each tool, and what they cannot see.

    Exits with 1 if a condition does not fit the tools, or if nothing names a fact that the constitution declares.
    """
    policy = run_with_database(load_policy, settings)
    for line in explained_conditions(policy):
        typer.echo(visible(line))
    unused = list(policy.unused_facts())
    for problem in unused:
        print_error(problem)
    raise typer.Exit(FAILED if unused else DONE)


def _actions(settings: Settings) -> list[ToolAction]:
    """Return the actions of the tools that are served now, whatever the conditions are."""
    return run_with_database(load_policy, settings.model_copy(update={"conditions": None})).actions

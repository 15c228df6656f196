"""`graph-agent tools`: use the tools directly, without a model."""

from __future__ import annotations

import asyncio
import webbrowser
from typing import Annotated

import typer

from graph_agent.bootstrap.definitions import diff_tools, pin_tools
from graph_agent.bootstrap.toolbox import served_policy, sign_in_to
from graph_agent.cli.database import run_with_database
from graph_agent.cli.options import AsJson, with_files
from graph_agent.cli.running import DONE, FAILED, print_error, print_stderr
from graph_agent.cli.show import json_line, print_text
from graph_agent.reply.text import visible
from graph_agent.settings import Settings


@with_files("mcp", "constitution")
def list_tools(*, settings: Settings, as_json: AsJson = False) -> None:
    """List the tools that the constitution allows and the server serves.

    ! marks those that need the user's confirmation. A server that does not answer is reported on stderr.
    """
    policy, wrong = run_with_database(served_policy, settings)
    for problem in wrong:
        print_error(problem)
    for name, rule in policy.rules.items():
        if as_json:
            traits = {"requires_confirmation": rule.grant.requires_confirmation, "read_only": not rule.mutating}
            typer.echo(json_line({**rule.declaration.to_json(), **traits}))
            continue
        mark = "!" if rule.grant.requires_confirmation else " "
        kind = "changes" if rule.mutating else "reads"
        print_text((mark, "bold yellow"), (f" {name:<14} ", "bold"), f"{kind:<9}{rule.grant.title}")
    for name in sorted(policy.unavailable) if not as_json else ():
        print_text(f"  {name:<14} unavailable")


@with_files("mcp", "constitution")
def pin(settings: Settings) -> None:
    """Write the definitions of the MCP servers' tools to a lock file beside the constitution.

    From then on a tool whose name, description, schema or annotations differ is refused.
    """
    file, count = run_with_database(pin_tools, settings)
    typer.echo(f"pinned {count} tools in {file}")


@with_files("mcp", "constitution")
def diff(settings: Settings) -> None:
    """List the tools that differ from the lock file.

    Exits with 1 if any differs.
    """
    lines = run_with_database(diff_tools, settings)
    for line in lines:
        typer.echo(visible(line))
    raise typer.Exit(FAILED if lines else DONE)


@with_files("mcp")
def sign_in(server: Annotated[str, typer.Argument(help="Sign in to this server of the file.")], *, settings: Settings) -> None:
    """Sign in to an MCP server in the browser.

    The server must support MCP's OAuth. The tokens are stored in GRAPH_AGENT_HOME, in a file that only you can read.
    """

    def show(address: str) -> None:
        print_stderr(f"sign in at {address}")
        webbrowser.open(address)

    asyncio.run(sign_in_to(settings, server, show))
    typer.echo(f"signed in to {server}")

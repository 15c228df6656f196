"""`graph-agent tools`: use the tools directly, without a model."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
import uvicorn
from rich.text import Text

from graph_agent.bootstrap import LOCAL_USER, toolbox
from graph_agent.bootstrap.definitions import diff_tools, pin_tools
from graph_agent.bootstrap.stores import open_stores
from graph_agent.bootstrap.toolbox import call_tool, served_policy
from graph_agent.cli.escape import plain
from graph_agent.cli.files import command_settings
from graph_agent.cli.loopback import is_loopback
from graph_agent.cli.running import (
    FAILED,
    AsJson,
    ConstitutionFile,
    Mcp,
    User,
    open_in_loop,
    option,
    print_stderr,
    wrong_usage,
)
from graph_agent.cli.show import json_line, stdout_console
from graph_agent.settings import read_settings


def list_tools(mcp: Mcp = None, constitution: ConstitutionFile = None, as_json: AsJson = False) -> None:
    """List the tools that the constitution allows and the server serves.

    ! marks those that need the user's confirmation.
    """
    settings = command_settings(mcp, constitution)
    with open_in_loop(open_stores(settings)) as (stores, run):
        policy = run(served_policy(settings, stores.tasks))
    console = stdout_console()
    for name, rule in policy.rules.items():
        if as_json:
            typer.echo(
                json_line(
                    {
                        **rule.declaration.to_json(),
                        "requires_confirmation": rule.grant.requires_confirmation,
                        "read_only": not rule.mutating,
                    }
                )
            )
            continue
        mark = "!" if rule.grant.requires_confirmation else " "
        kind = "changes" if rule.mutating else "reads"
        console.print(Text.assemble((mark, "bold yellow"), (f" {name:<15}", "bold"), f"{kind:<9}{rule.grant.summary}"))


def call(
    name: Annotated[str, typer.Argument(help="Call this tool, named as by `tools list`.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="Pass these arguments, one JSON object.")] = "{}",
    user: User = LOCAL_USER,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm the call, for a tool that needs it.")] = False,
    mcp: Mcp = None,
    constitution: ConstitutionFile = None,
) -> None:
    """Call one tool over MCP and print its result as JSON.

    The guard checks the call as it checks a model's. It is not recorded: the log contains decisions only.
    """
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        wrong_usage("the arguments must be one JSON object")
    settings = command_settings(mcp, constitution)
    with open_in_loop(open_stores(settings)) as (stores, run):
        result = run(call_tool(settings, stores.tasks, name, given, user, consent=yes))
    typer.echo(json_line(result.to_json()))
    if not result.success:
        raise typer.Exit(FAILED)


def pin(mcp: Mcp = None, constitution: ConstitutionFile = None) -> None:
    """Write the definitions of the MCP servers' tools to a lock file beside the constitution.

    From then on a tool whose name, description, schema or annotations differ is refused.
    """
    settings = command_settings(mcp, constitution)
    with open_in_loop(open_stores(settings)) as (stores, run):
        file, count = run(pin_tools(settings, stores.tasks))
    typer.echo(f"pinned {count} tools in {file}")


def diff(mcp: Mcp = None, constitution: ConstitutionFile = None) -> None:
    """List the tools that differ from the lock file.

    Exits with 1 if any differs.
    """
    settings = command_settings(mcp, constitution)
    with open_in_loop(open_stores(settings)) as (stores, run):
        lines = run(diff_tools(settings, stores.tasks))
    for line in lines:
        typer.echo(plain(line))
    if lines:
        raise typer.Exit(FAILED)


def serve_tools(
    user: User = LOCAL_USER,
    http: Annotated[
        str | None,
        option("--http", "HOST:PORT", "Serve streamable HTTP at /mcp instead of stdio."),
    ] = None,
) -> None:
    """Serve one user's tasks to any MCP client, over stdio.

    Every client that can reach the server acts as that user, so over HTTP it listens on loopback addresses only.
    """
    settings = read_settings()
    host, port = _address(http) if http is not None else ("", 0)
    with open_in_loop(open_stores(settings)) as (stores, run):
        try:
            if http is None:
                print_stderr(f"serving the tasks of {user} over stdio")
                run(toolbox.serve_tools(stores.tasks, user))
            else:
                print_stderr(f"serving the tasks of {user} on http://{http}/mcp")
                run(_serve_http(toolbox.tools_app(stores.tasks, user), host, port))
        except KeyboardInterrupt:
            return


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        wrong_usage("--http takes HOST:PORT")
    if not is_loopback(host):
        wrong_usage(f"tools are served on loopback addresses only, and {host} is not one")
    return host.strip("[]"), int(port)


async def _serve_http(app_to_serve: Any, host: str, port: int) -> None:
    config = uvicorn.Config(app_to_serve, host=host, port=port, log_config=None, access_log=False, server_header=False)
    await uvicorn.Server(config).serve()

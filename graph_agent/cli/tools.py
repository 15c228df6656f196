"""`graph-agent tools`: the tools themselves, without a model in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from graph_agent.cli.running import FAILED, AsJson, Run, User, opened, settings_now, tell, wrong_usage
from graph_agent.cli.serve import is_loopback
from graph_agent.cli.show import json_line, out

if TYPE_CHECKING:
    from graph_agent.bootstrap import Stores
    from graph_agent.settings import Settings

app = typer.Typer(help="The tools, without a model in between.", no_args_is_help=True)


@app.command("list")
def list_tools(as_json: AsJson = False) -> None:
    """The tools the constitution lists and the server serves; ! marks those that need the user's confirmation."""
    settings = settings_now()
    with _opened_stores(settings) as (stores, run):
        from graph_agent.bootstrap import served_policy

        policy = run(served_policy(settings, stores.tasks))
    console = out()
    for name, rule in policy.rules.items():
        if as_json:
            typer.echo(
                json_line(
                    {
                        **rule.declaration.to_json(),
                        "requires_confirmation": rule.grant.requires_confirmation,
                        "read_only": rule.traits.read_only,
                    }
                )
            )
            continue
        mark = "!" if rule.grant.requires_confirmation else " "
        kind = "reads" if rule.traits.read_only else "changes"
        console.print(Text.assemble((mark, "bold yellow"), (f" {name:<15}", "bold"), f"{kind:<9}{rule.grant.summary}"))


@app.command("call")
def call(
    name: Annotated[str, typer.Argument(help="As `tools list` tells it.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="The arguments, one object.")] = "{}",
    user: User = None,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm a tool that needs it.")] = False,
) -> None:
    """Call one tool over MCP and print its result as JSON.

    The guard judges the call like a model's. It is not recorded: the log holds decisions.
    """
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        wrong_usage("the arguments must be one JSON object")
    settings = settings_now()
    with _opened_stores(settings) as (stores, run):
        from graph_agent.bootstrap import LOCAL_USER, call_tool

        owner = LOCAL_USER if user is None else user
        result = run(call_tool(settings, stores.tasks, name, given, owner, consent=yes))
    typer.echo(json_line(result.to_json()))
    if not result.success:
        raise typer.Exit(FAILED)


@app.command("serve")
def serve_tools(
    user: User = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Over streamable HTTP at /mcp instead.", show_default=False),
    ] = None,
) -> None:
    """Serve one user's tasks to any MCP client, over stdio.

    Whoever can reach it acts as that user, so over HTTP it listens on loopback addresses only.
    """
    from graph_agent.bootstrap import LOCAL_USER

    settings = settings_now()
    owner = LOCAL_USER if user is None else user
    host, port = _address(http) if http is not None else ("", 0)
    with _opened_stores(settings) as (stores, run):
        from graph_agent import bootstrap

        try:
            if http is None:
                tell(f"serving the tasks of {owner} over stdio")
                run(bootstrap.serve_tools(stores.tasks, owner))
            else:
                tell(f"serving the tasks of {owner} on http://{http}/mcp")
                run(_serve_http(bootstrap.tools_app(stores.tasks, owner), host, port))
        except KeyboardInterrupt:
            return


@contextmanager
def _opened_stores(settings: Settings) -> Iterator[tuple[Stores, Run[Any]]]:
    from graph_agent.bootstrap import open_stores

    with opened(open_stores(settings)) as (stores, run):
        yield stores, run


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        wrong_usage("--http takes HOST:PORT")
    if not is_loopback(host):
        wrong_usage(f"tools are served on loopback addresses only, and {host} is none")
    return host.strip("[]"), int(port)


async def _serve_http(app_to_serve: Any, host: str, port: int) -> None:
    import uvicorn

    config = uvicorn.Config(app_to_serve, host=host, port=port, log_config=None, access_log=False, server_header=False)
    await uvicorn.Server(config).serve()

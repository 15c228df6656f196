"""`graph-agent tools`: use the tools directly, without a model."""

from __future__ import annotations

import asyncio
import json
import webbrowser
from typing import Annotated

import typer

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.agent_services import open_agent_services
from graph_agent.bootstrap.definitions import diff_tools, pin_tools
from graph_agent.bootstrap.toolbox import problems, served_policy, sign_in_to
from graph_agent.cli.database import run_with_database
from graph_agent.cli.options import AsJson, Roles, User, known_roles, with_files
from graph_agent.cli.running import DONE, FAILED, open_in_loop, print_error, print_stderr, wrong_usage
from graph_agent.cli.show import json_line, print_text, whole_action
from graph_agent.cli.typed_answer import TokenFile, has_launch_token, typed_answer
from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode, ToolErrorCode
from graph_agent.models.decision import AgentDecision
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.unique_keys import RepeatedKeyError, unique_keys
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
        print_text((mark, "bold yellow"), (f" {name:<14} ", "bold"), f"{kind:<9}{rule.grant.summary}")
    for name in sorted(policy.unavailable) if not as_json else ():
        print_text(f"  {name:<14} unavailable")


@with_files()
def call(
    name: Annotated[str, typer.Argument(help="Call this tool, named as by `tools list`.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="Pass these arguments, one JSON object.")] = "{}",
    user: User = LOCAL_USER,
    role: Roles = None,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm the call without a terminal; needs --token-file.")] = False,
    token_file: TokenFile = None,
    *,
    settings: Settings,
) -> None:
    """Call one tool over MCP and print its result as JSON.

    The call is a decision without a model: the guard judges it, it is recorded, and `log show` prints it. If the tool needs
    confirmation, you are asked for it in the terminal. Without a terminal nothing is done, and no question is left to answer.
    """
    if yes and not has_launch_token(settings, token_file):
        wrong_usage("--yes needs the launch token: --token-file FILE; without both you are asked in the terminal")
    try:
        given = json.loads(arguments, object_pairs_hook=unique_keys)
    except RepeatedKeyError as exc:
        wrong_usage(f"the arguments have the key {exc.key!r} twice in one object")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        wrong_usage("the arguments must be one JSON object")
    roles = known_roles(settings.role_names, role)
    with open_in_loop(open_agent_services(settings)) as (services, run):
        run(services.tools.start())
        engine = services.calling_engine()
        finished = run(engine.call(user, [FunctionCall(name, given)], roles=roles, typed=True))
        if finished.decision.pending_action is not None:
            finished = run(engine.answer(finished, yes=yes or _is_confirmed(name, finished.decision)))
        down = problems(services.tools)
    if not finished.record.invocations:
        print_stderr(finished.decision.reply)
        return
    made = finished.record.invocations[-1]
    if finished.decision.approval is not None:
        print_stderr(finished.decision.reply)
        raise typer.Exit(FAILED)
    if made.error_code == ToolErrorCode.TOOL_UNAVAILABLE and down:
        raise ConfigurationError(f"{name} is unavailable: {'; '.join(down)}")
    if made.disposition is CallDisposition.REFUSED:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"{name}: {made.error_message}")
    assert finished.turn is not None
    result = finished.turn.calls[-1].result.replace(duration_ms=made.duration_ms)
    typer.echo(json_line(result.to_json()))
    print_stderr(f"decision: {finished.decision.decision_id}")
    raise typer.Exit(DONE if result.success else FAILED)


def _is_confirmed(name: str, decision: AgentDecision) -> bool:
    """Ask in the terminal, with all of the action; anything but a yes is a no."""
    # The question belongs to no conversation, so it waits nowhere.
    elsewhere = f"nothing was done: {name} needs a yes, in a terminal or by --yes with the launch token (--token-file FILE)"
    question, pending = decision.reply, decision.pending_action
    if pending is not None and pending.by_id_only:
        question = f"{whole_action(pending)}\nShould I go ahead?"
    return typed_answer(question, elsewhere=elsewhere) is True


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

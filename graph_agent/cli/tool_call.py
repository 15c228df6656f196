"""`graph-agent tools call`: call one tool without a model."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.agent_services import open_agent_services
from graph_agent.bootstrap.toolbox import problems
from graph_agent.cli.local_zone import local_zone
from graph_agent.cli.options import Roles, User, known_roles, with_rules
from graph_agent.cli.running import DONE, FAILED, open_in_loop, print_stderr, wrong_usage
from graph_agent.cli.show import json_line, whole_action
from graph_agent.cli.typed_answer import TokenFile, has_launch_token, typed_answer
from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode, ToolErrorCode
from graph_agent.models.decision import AgentDecision
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.unique_keys import RepeatedKeyError, unique_keys
from graph_agent.settings import Settings


@with_rules()
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
        finished = run(engine.call(user, [FunctionCall(name, given)], roles=roles, typed=True, time_zone=local_zone()))
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

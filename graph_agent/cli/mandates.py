"""`graph-agent mandates`: the plans that people have agreed to, with what was drawn from them, and their revocation."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from graph_agent.bootstrap.operator_stores import open_for_operator
from graph_agent.bootstrap.secret import record_keys
from graph_agent.cli.options import AsJson, not_blank, option
from graph_agent.cli.running import open_in_loop, wrong_usage
from graph_agent.cli.show import json_line
from graph_agent.errors import ConfigurationError
from graph_agent.models.mandate import Line, MandateView
from graph_agent.record.mandates import find_mandate, list_mandates
from graph_agent.record.mandates import revoke as revoke_open
from graph_agent.record.tree.leaves import Sealer
from graph_agent.reply.text import counted, visible
from graph_agent.settings import read_settings

OfUser = Annotated[str | None, option("--user", "ID", "Only those of this user.", check=not_blank)]
MandateId = typer.Argument(metavar="ID", help="The id, as `mandates list` prints it.")


def print_mandates(
    user: OfUser = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="List at most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the plans that people have agreed to, newest first, with how much of each line was used."""
    now = datetime.now(UTC)
    with open_in_loop(open_for_operator(read_settings())) as (database, _):
        found = database.read_now(lambda connection: list_mandates(connection, now, user_id=user, limit=limit))
    if not found and not as_json:
        typer.echo("Nobody has agreed to a plan.")
    for view in found:
        typer.echo(json_line(view.to_json()) if as_json else visible(_line(view)))


def show_mandate(mandate_id: Annotated[str, MandateId], as_json: AsJson = False) -> None:
    """Print one plan: its lines, what was drawn from each, and its state."""
    now = datetime.now(UTC)
    with open_in_loop(open_for_operator(read_settings())) as (database, _):
        view = database.read_now(lambda connection: find_mandate(connection, mandate_id, now))
    if view is None:
        raise ConfigurationError(f"there is no mandate {mandate_id}: `graph-agent mandates list` prints them")
    if as_json:
        typer.echo(json_line(view.to_json()))
        return
    typer.echo(visible(_line(view)))
    for number, (line, drawn) in enumerate(zip(view.mandate.lines, view.drawn, strict=True), 1):
        most = f"{drawn}, at most {line.times} in each run" if view.mandate.plan.job else f"{drawn} of {line.times}"
        typer.echo(visible(f"  {number}. {_in_words(line)}: {most}"))
    typer.echo(visible(f"  agreed to in decision {view.mandate.decision_id}"))


def revoke(
    mandate_id: Annotated[str | None, MandateId] = None,
    everything: Annotated[bool, typer.Option("--all", help="Revoke all that are in force.")] = False,
    user: OfUser = None,
) -> None:
    """Revoke a plan: from now on none of its lines covers a call.

    Calls that were sent before cannot be called back.
    """
    if (mandate_id is None) is not everything or (user is not None and not everything):
        wrong_usage("give the id of a mandate, or --all, with or without --user")
    settings, by = read_settings(), _me()
    sealer = Sealer(record_keys(settings))
    with open_in_loop(open_for_operator(settings)) as (database, _):
        ended = database.write_now(
            lambda connection: revoke_open(connection, database.time(), sealer, by=by, mandate_id=mandate_id, user_id=user)
        )
    if mandate_id is None:
        typer.echo(f"revoked {counted(ended, 'mandate')}")
        return
    if not ended:
        raise ConfigurationError(f"no mandate {mandate_id} is in force: `graph-agent mandates list` prints them")
    typer.echo(visible(f"revoked {mandate_id}"))


def _line(view: MandateView) -> str:
    mandate, plan = view.mandate, view.mandate.plan
    end = f" by {view.ended_by}" if view.ended_by else ""
    used = f"{sum(view.drawn)} of {counted(sum(line.times for line in plan.lines), 'call')}"
    used = f"{view.runs} of {counted(plan.runs, 'run')}" if plan.job else used
    until = f"until {mandate.until:%Y-%m-%d %H:%M} UTC"
    job = f", job {plan.job}" if plan.job else ""
    return f"{mandate.id}: {view.state}{end}, {until}, {used}, for {mandate.user_id}{job}"


def _in_words(line: Line) -> str:
    return f"{line.tool} {json.dumps(line.to_json()['arguments'], ensure_ascii=False, sort_keys=True)}"


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container without an entry for its user.
        return ""

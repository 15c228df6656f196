"""`graph-agent stop`, `resume` and `stops`: forbid calls at once, and permit them again.

They open no runtime: a stop needs neither a model nor the tools, and none of the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

import typer

from graph_agent.bootstrap.approvals import open_approvals
from graph_agent.bootstrap.operator_stores import open_for_operator
from graph_agent.bootstrap.secret import record_keys
from graph_agent.cli.options import AsJson, OperatorReason, not_blank, option
from graph_agent.cli.running import local_account, open_in_loop, wrong_usage
from graph_agent.cli.show import json_line
from graph_agent.models.stop import Stop, StopScope
from graph_agent.record.permit import PERMIT_SECONDS
from graph_agent.record.stops import calls_under_way, end_stop, find_open_stops, list_stops, place_stop
from graph_agent.record.tree.leaves import Sealer
from graph_agent.reply.text import counted, visible
from graph_agent.settings import read_settings


def stop(
    reason: OperatorReason,
    tool: Annotated[str | None, option("--tool", "NAME", "Stop the calls of this tool.", check=not_blank)] = None,
    user: Annotated[str | None, option("--user", "ID", "Stop the turns of this user.", check=not_blank)] = None,
    server: Annotated[str | None, option("--server", "NAME", "Stop what goes to this MCP server.", check=not_blank)] = None,
    changes: Annotated[bool, typer.Option("--changes", help="Stop only what changes something.")] = False,
    say: Annotated[str, option("--say", "TEXT", "Tell users this.")] = "",
    as_json: AsJson = False,
) -> None:
    """Stop everything at once, or one tool, user or MCP server, until `graph-agent resume`.

    From the time that is printed on, no call is intended any more in any process on this database, and 1.5 seconds later none
    sends anything. Calls that were sent before cannot be called back; their answers are recorded.
    """
    named = {StopScope.TOOL: tool, StopScope.USER: user, StopScope.SERVER: server}
    given = [(scope, name) for scope, name in named.items() if name is not None]
    if len(given) > 1:
        wrong_usage("one stop is for one of --tool, --user and --server: several stops hold together")
    scope, name = given[0] if given else (StopScope.EVERYTHING, "")
    new = Stop(number=0, scope=scope, name=name, changes_only=changes, say=say, reason=reason, by=local_account())
    with open_in_loop(open_for_operator(read_settings())) as (database, run):
        placed = run(place_stop(database, new))
        before = database.read_now(lambda connection: calls_under_way(connection, placed))
        if not as_json:
            typer.echo(visible(f"stop {placed.number}: stopped {placed.what} at {placed.at:%H:%M:%S.%f} UTC. {_sent(before)}"))
        run(asyncio.sleep(PERMIT_SECONDS))
        after = database.read_now(lambda connection: calls_under_way(connection, placed))
    if as_json:
        typer.echo(json_line({**placed.to_json(), "under_way": {name: sorted(ids) for name, ids in after.items()}}))
        return
    typer.echo(f"nothing is sent any more. {_sent(after)}")
    for decision in sorted({decision for decisions in after.values() for decision in decisions}):
        typer.echo(f"  graph-agent log show {decision}")


def resume(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the stop.")],
    reason: OperatorReason,
    void_waiting: Annotated[
        bool, typer.Option("--void-waiting", help="End the calls that wait for an approval and that the stop covers.")
    ] = False,
) -> None:
    """End a stop.

    Nothing happens by itself: each message, yes and approval is judged anew. The end has a MAC of the key of this installation.
    Without it a stop goes on, whatever its row says.
    """
    settings = read_settings()
    with open_in_loop(open_for_operator(settings)) as (database, run):
        stopped = next((one for one in database.read_now(find_open_stops) if one.number == number), None)
        if void_waiting and stopped is not None:
            if stopped.scope is StopScope.SERVER:
                wrong_usage("which tools a server has is not known here: stop each --tool, and resume it with --void-waiting")
            # First, while nothing can carry one out.
            voided = run(open_approvals(settings, database, "").void_covered(stopped))
            typer.echo(f"ended {counted(voided, 'waiting request')}; a server tells their requesters")
        ended = run(end_stop(database, number, Sealer(record_keys(settings)), by=local_account(), reason=reason))
        left = database.read_now(find_open_stops)
    typer.echo(visible(f"resumed {ended.what} at {ended.ended_at:%H:%M:%S} UTC"))
    for one in left:
        typer.echo(visible(_line(one)))


def print_stops(
    ended: Annotated[bool, typer.Option("--ended", help="List those that have ended, too.")] = False, as_json: AsJson = False
) -> None:
    """List what is stopped now, oldest first."""
    with open_in_loop(open_for_operator(read_settings())) as (database, _):
        found = database.read_now(list_stops if ended else find_open_stops)
    if not found and not as_json:
        typer.echo("Nothing is stopped.")
    for one in found:
        typer.echo(json_line(one.to_json()) if as_json else visible(_line(one)))


def _line(one: Stop) -> str:
    end = "" if one.ended_at is None else f", ended {one.ended_at:%Y-%m-%d %H:%M:%S} by {one.ended_by} ({one.end_reason})"
    by = f" by {one.by}" if one.by else ""
    return f"{one.number}  {one.what}, since {one.at:%Y-%m-%d %H:%M:%S} UTC{by} ({one.reason}){end}"


def _sent(under_way: Mapping[str, set[str]]) -> str:
    decisions = {decision for found in under_way.values() for decision in found}
    if not decisions:
        return "No call is under way."
    return f"{counted(len(decisions), 'decision')} may still wait for an answer of: {', '.join(sorted(under_way))}."

"""`graph-agent budget`: what a user has used of the budgets."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from graph_agent.audit.findings import used_text
from graph_agent.bootstrap import LOCAL_USER
from graph_agent.cli.database import open_log
from graph_agent.cli.options import AsJson, User
from graph_agent.cli.show import json_line
from graph_agent.models.facts import total_of, uses_by_window, window_start
from graph_agent.record.operations import find_uses
from graph_agent.reply.text import visible
from graph_agent.settings import read_settings


def budget(user: User = LOCAL_USER, as_json: AsJson = False) -> None:
    """Print what a user has used in this hour and day of the budgets that rules set, by tool.

    Calls whose outcome is not known yet are counted.
    """
    zone, now = read_settings().time_zone, datetime.now(UTC)
    with open_log(writes=True) as (database, run):
        uses = run(database.read(lambda connection: find_uses(connection, user, window_start("day", now, zone))))
    windows = uses_by_window(uses, now, zone)
    for tool in sorted({use.tool_name for use in uses}):
        used = {window: total_of(tools[tool]) for window, tools in windows.items() if tool in tools}
        unsettled = sum(not use.settled for use in uses if use.tool_name == tool)
        text = f"{tool}: {used_text(used)}" + (f"; {unsettled} not settled yet" if unsettled else "")
        found = {"tool": tool, "used": used, "unsettled": unsettled}
        typer.echo(json_line(found) if as_json else visible(text))
    if not uses and not as_json:
        typer.echo("Nothing that a rule counts was used today.")

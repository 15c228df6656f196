"""`graph-agent log prune`: the removal of old decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from graph_agent.audit.retention import count_removable, prune
from graph_agent.cli.confirming import DryRun, Yes, confirm_removal, require_terminal
from graph_agent.cli.executors import progress_bar
from graph_agent.cli.opened_tree import open_tree
from graph_agent.cli.options import AsJson
from graph_agent.cli.show import json_line
from graph_agent.reply.text import counted
from graph_agent.settings import MAX_RETENTION_DAYS, read_settings


def prune_decisions(
    days: Annotated[
        int | None,
        typer.Option(
            "--days", min=1, max=MAX_RETENTION_DAYS, help="Keep this many days.", show_default="GRAPH_AGENT_RETENTION_DAYS, 30"
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove closed decisions that are older than the retention.

    They are removed in small batches. Baselines and reports are kept. If --days is shorter than the retention, you are asked
    first.
    """
    now, settings = datetime.now(UTC), read_settings()
    keep = days or settings.retention_days
    asks = keep < settings.retention_days and not dry_run
    if asks:
        require_terminal(yes=yes)
    before = now - timedelta(days=keep)
    with open_tree(settings) as (_, stores, tree, run), progress_bar("pruning") as advance:
        # What is not in the tree is not removed.
        run(tree.seal())
        if asks or dry_run:
            found = run(count_removable(stores.database, before))
            text = f"{counted(found, 'decision')} from before {before:%Y-%m-%d %H:%M} UTC"
            if dry_run:
                typer.echo(
                    json_line({"before": before.isoformat(), "decisions": found}) if as_json else f"{text} would be removed"
                )
                return
            confirm_removal(f"Remove {text}, which the retention of {settings.retention_days} days keeps?", yes=yes)
        pruned = prune(stores.database, before, now=now, key=tree.key, on_batch=lambda gone: advance(gone, None))
        report = run(pruned)
    text = f"{report.decisions} decisions and {report.texts} texts from before {report.before:%Y-%m-%d %H:%M} UTC removed"
    typer.echo(json_line(report.to_json()) if as_json else text)

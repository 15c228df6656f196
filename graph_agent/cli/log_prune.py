"""`graph-agent log prune`: remove what is older than the retention."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from graph_agent.audit.retention import prune
from graph_agent.bootstrap.record_tree import record_tree
from graph_agent.cli.filters import open_log
from graph_agent.cli.progress import progress_bar
from graph_agent.cli.running import AsJson
from graph_agent.cli.show import json_line
from graph_agent.clock import SystemClock
from graph_agent.settings import read_settings


def prune_decisions(
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, max=36500, help="Keep this many days.", show_default="GRAPH_AGENT_RETENTION_DAYS, 30"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove closed decisions that are older than the retention.

    They are removed in small batches. Baselines and reports are kept.
    """
    settings = read_settings()
    now = datetime.now(UTC)
    before = now - timedelta(days=days or settings.retention_days)
    with open_log(writes=True) as (database, run):
        tree = record_tree(settings, database, SystemClock())
        with progress_bar("pruning") as advance:
            # What is not in the tree is not removed.
            run(tree.seal())
            report = run(prune(database, before, now=now, key=tree.key, on_batch=lambda gone: advance(gone, None)))
    if as_json:
        typer.echo(json_line(report.to_json()))
    else:
        gone = f"{report.decisions} decisions and {report.texts} texts"
        typer.echo(f"{gone} from before {report.before:%Y-%m-%d %H:%M} UTC removed")

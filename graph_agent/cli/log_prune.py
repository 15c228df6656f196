"""`graph-agent log prune`: what is older than the retention goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

import typer

from graph_agent.cli.choice import opened_log
from graph_agent.cli.progress import counting
from graph_agent.cli.running import AsJson, settings_now
from graph_agent.cli.show import json_line


def prune_decisions(
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, max=36500, help="How many days stay.", show_default="GRAPH_AGENT_RETENTION_DAYS, 30"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove closed decisions that are older than the retention, a few at a time. Baselines and reports stay."""
    settings = settings_now()
    before = datetime.now(UTC) - timedelta(days=days or settings.retention_days)
    with opened_log() as (database, run):
        from graph_agent.record.tamper.pruned import record_cut
        from graph_agent.audit.retention import prune
        from graph_agent.bootstrap import chain_key

        cut = partial(record_cut, key=chain_key(settings))
        with counting("pruning") as told:
            report = run(prune(database, before, cut=cut, on_batch=lambda gone: told(gone, None)))
    if as_json:
        typer.echo(json_line(report.to_json()))
    else:
        gone = f"{report.decisions} decisions and {report.texts} texts"
        typer.echo(f"{gone} from before {report.before:%Y-%m-%d %H:%M} UTC removed")

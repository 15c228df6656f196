"""`graph-agent log prune`: remove what is older than the retention."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

import typer

from graph_agent.audit.retention import prune
from graph_agent.bootstrap.secret import chain_keys
from graph_agent.cli.filters import open_log
from graph_agent.cli.progress import progress_bar
from graph_agent.cli.running import AsJson
from graph_agent.cli.show import json_line
from graph_agent.record.tamper.pruned import mark_pruned
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
    before = datetime.now(UTC) - timedelta(days=days or settings.retention_days)
    with open_log(writes=True) as (database, run):
        key = chain_keys(settings)
        mark = partial(mark_pruned, key=key)
        with progress_bar("pruning") as advance:
            report = run(prune(database, before, mark=mark, chain_key=key, on_batch=lambda gone: advance(gone, None)))
    if as_json:
        typer.echo(json_line(report.to_json()))
    else:
        gone = f"{report.decisions} decisions and {report.texts} texts"
        typer.echo(f"{gone} from before {report.before:%Y-%m-%d %H:%M} UTC removed")

"""`graph-agent baseline`: store how the agent behaves, and compare later decisions with it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from graph_agent.audit.drift.baselines import BaselineService
from graph_agent.audit.drift.compare import Comparison, Drift
from graph_agent.audit.filters import DecisionFilter
from graph_agent.bootstrap.secret import record_keys
from graph_agent.cli.database import open_log
from graph_agent.cli.options import AsJson, filter_by, option
from graph_agent.cli.running import DONE, FAILED
from graph_agent.cli.show import json_line, print_result, print_text, stdout_console
from graph_agent.reply.text import counted, visible
from graph_agent.settings import read_settings


@filter_by("since", "until", "user_id", "model")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name the baseline.")],
    *,
    filters: DecisionFilter,
    description: Annotated[str | None, option("--description", "TEXT", "Describe the baseline.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a baseline from the decisions in a time range."""
    with open_log(writes=True) as (database, run):
        service = BaselineService(database, record_key=record_keys(read_settings()))
        baseline = run(service.create_baseline(name, description=description, filters=filters))
    text = f"{visible(baseline.name)}: {baseline.decisions} decisions, {counted(len(baseline.profiles), 'group')}"
    typer.echo(json_line(baseline.to_json()) if as_json else text)


def list_baselines(as_json: AsJson = False) -> None:
    """List the baselines, newest first.

    With --json, print one object per line.
    """
    with open_log() as (database, run):
        baselines = run(BaselineService(database).list_baselines())
    if as_json:
        for baseline in baselines:
            typer.echo(json_line(baseline.to_json()))
        return
    table = Table("name", "created", "decisions", "from", "to", "models", box=None, pad_edge=False)
    for baseline in baselines:
        span = [f"{at:%Y-%m-%d %H:%M}" if at else "-" for at in (baseline.since, baseline.until)]
        models = ", ".join(sorted({profile.model for profile in baseline.profiles}))
        table.add_row(
            visible(baseline.name), f"{baseline.created_at:%Y-%m-%d %H:%M}", f"{baseline.decisions:,}", *span, visible(models)
        )
    stdout_console().print(table)


@filter_by("since", "until", "user_id", "model")
def compare(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Compare with this baseline, by name or id.")],
    *,
    filters: DecisionFilter,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0.0001, max=0.9999, help="Tolerate deviations up to this.")
    ] = 0.10,
    as_json: AsJson = False,
) -> None:
    """Compare later decisions with a baseline.

    Exits with 1 if the behavior has drifted.
    """
    with open_log(writes=True) as (database, run):
        service = BaselineService(database, record_key=record_keys(read_settings()))
        report = run(service.compare_to_baseline(name, threshold=threshold, filters=filters))
    print_result(report.to_json(), lambda: print_drift(report), as_json=as_json)
    raise typer.Exit(FAILED if report.drift_detected else DONE)


def print_drift(drift: Drift) -> None:
    """Print the deviations of each group, and the groups that could not be compared."""
    for group in drift.groups:
        print_text(
            f"{visible(group.model)}, constitution {group.constitution[:12]}: "
            f"{group.baseline_decisions:,} decisions then, {group.decisions:,} now"
        )
        if group.new_response_models:
            print_text(f"answered by another model than in the baseline: {visible(', '.join(group.new_response_models))}")
        table = Table("", "then", "now", "deviation", "p", "", box=None, pad_edge=False)
        for one in sorted(group.comparisons, key=lambda one: (not one.flagged, -abs(one.deviation)))[:12]:
            what = f"{one.dimension} {visible(one.name)}"
            table.add_row(what, *_figures(one), "DRIFT" if one.flagged else "", style="red" if one.flagged else "")
        stdout_console().print(table)
    for other in drift.uncompared:
        print_text(f"not compared: {visible(other.model)}, constitution {other.constitution[:12]}, "
                      f"{other.decisions:,} decisions: {other.reason}")  # fmt: skip
    verdict = "drift" if drift.drift_detected else "no drift"
    print_text(f"{verdict}: threshold {drift.threshold:g}, significance {drift.alpha:g} over {drift.tests} comparisons")


def _figures(one: Comparison) -> tuple[str, str, str, str]:
    if one.dimension == "latency":
        figures = f"{one.baseline:,.0f} ms", f"{one.current:,.0f} ms", f"{one.deviation:+.1%}"
    else:
        figures = f"{one.baseline:.1%}", f"{one.current:.1%}", f"{one.deviation * 100:+.1f} points"
    return (*figures, f"{one.p_value:.2g}")

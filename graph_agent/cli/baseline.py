"""`graph-agent baseline`: how the agent behaved, kept, and compared with how it behaves now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from graph_agent.cli.choice import ByModel, OfUser, Since, Until, chosen, opened_log
from graph_agent.cli.running import FAILED, AsJson
from graph_agent.cli.show import json_line, out, plain

if TYPE_CHECKING:
    from rich.console import Console

    from graph_agent.audit.drift.baselines import DriftReport
    from graph_agent.audit.drift.compare import Comparison, Drift

app = typer.Typer(help="Keep how the agent behaves, and find drift.", no_args_is_help=True)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called.")],
    since: Since = None,
    until: Until = None,
    user: OfUser = None,
    by_model: ByModel = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What it stands for.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep how the decisions of a span of time were made."""
    with opened_log() as (database, run):
        from graph_agent.audit.drift.baselines import BaselineService

        filters = chosen(since=since, until=until, user_id=user, model=by_model)
        baseline = run(BaselineService(database).create_baseline(name, description=description, filters=filters))
    if as_json:
        typer.echo(json_line(baseline.to_json()))
    else:
        groups = len(baseline.profiles)
        typer.echo(f"{plain(baseline.name)}: {baseline.decisions} decisions, {groups} group{'s' if groups > 1 else ''}")


@app.command("list")
def list_baselines(as_json: AsJson = False) -> None:
    """The baselines, newest first; with --json one object a line."""
    with opened_log() as (database, run):
        from graph_agent.audit.drift.baselines import BaselineService

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
            plain(baseline.name), f"{baseline.created_at:%Y-%m-%d %H:%M}", f"{baseline.decisions:,}", *span, plain(models)
        )
    out().print(table)


@app.command("compare")
def compare(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The baseline's name or id.")],
    since: Since = None,
    until: Until = None,
    user: OfUser = None,
    by_model: ByModel = None,
    threshold: Annotated[float, typer.Option("--threshold", min=0.0001, max=0.9999, help="What is tolerated.")] = 0.10,
    as_json: AsJson = False,
) -> None:
    """Compare later decisions with a baseline; exits 1 where the behaviour has drifted."""
    with opened_log() as (database, run):
        from graph_agent.audit.drift.baselines import BaselineService

        filters = chosen(since=since, until=until, user_id=user, model=by_model)
        report: DriftReport = run(BaselineService(database).compare_to_baseline(name, threshold=threshold, filters=filters))
    if as_json:
        typer.echo(json_line(report.to_json()))
    else:
        print_drift(out(), report)
    if report.drift_detected:
        raise typer.Exit(FAILED)


def print_drift(console: Console, drift: Drift) -> None:
    """What moved, group by group, and what could not be compared."""
    for group in drift.groups:
        console.print(
            f"{plain(group.model)}, constitution {group.constitution[:12]}: "
            f"{group.baseline_decisions:,} decisions then, {group.decisions:,} now"
        )
        table = Table("", "then", "now", "deviation", "p", "", box=None, pad_edge=False)
        for one in sorted(group.comparisons, key=lambda one: (not one.flagged, -abs(one.deviation)))[:12]:
            what = f"{one.dimension} {plain(one.name)}" if one.name != "*" else f"{one.dimension}, moved in all"
            table.add_row(what, *_figures(one), "DRIFT" if one.flagged else "", style="red" if one.flagged else "")
        console.print(table)
    for other in drift.uncompared:
        console.print(f"not compared: {plain(other.model)}, constitution {other.constitution[:12]}, "
                      f"{other.decisions:,} decisions: {other.reason}")  # fmt: skip
    verdict = "drift" if drift.drift_detected else "no drift"
    console.print(
        f"{verdict}: threshold {drift.threshold:g}, significance {drift.alpha:g} over {drift.tests} comparisons (Holm)"
    )


def _figures(one: Comparison) -> tuple[str, str, str, str]:
    match one.dimension:
        case "latency":
            told = f"{one.baseline:,.0f} ms", f"{one.current:,.0f} ms", f"{one.deviation:+.1%}"
        case "tool_frequency":
            told = f"{one.baseline:.2f}", f"{one.current:.2f}", f"{one.deviation:+.2f} a decision"
        case _:
            told = f"{one.baseline:.1%}", f"{one.current:.1%}", f"{one.deviation * 100:+.1f} points"
    return (*told, f"{one.p_value:.2g}")

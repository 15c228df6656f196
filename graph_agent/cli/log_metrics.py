"""`graph-agent log metrics`: figures over the decisions."""

from __future__ import annotations

import typer
from rich.table import Table

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.metrics import Durations, MetricsSummary
from graph_agent.cli.filters import filter_by, open_queries
from graph_agent.cli.running import AsJson
from graph_agent.cli.show import json_line, print_text, stdout_console
from graph_agent.reply.text import visible


@filter_by("since", "until", "user_id", "conversation_id", "model")
def print_metrics(*, filters: DecisionFilter, as_json: AsJson = False) -> None:
    """Print totals, rates, percentiles and breakdowns of the decisions."""
    with open_queries() as (log, run):
        metrics = run(log.get_metrics_summary(filters=filters))
    if as_json:
        typer.echo(json_line(metrics.to_json()))
    else:
        _print(metrics)


def _print(metrics: MetricsSummary) -> None:
    rate = "-" if metrics.success_rate is None else f"{metrics.success_rate:.1%}"
    print_text(f"{metrics.total:,} decisions, {rate} successful, {metrics.open:,} open, {metrics.interrupted:,} interrupted")
    print_text(f"decisions take {_durations(metrics.durations)}; tool calls {_durations(metrics.tool_durations)}")
    tokens = metrics.tokens
    if tokens.decisions:
        print_text(
            f"{tokens.total_tokens:,} tokens, {tokens.prompt_tokens:,} in and {tokens.completion_tokens:,} out, "
            f"reported by {tokens.decisions:,} decisions"
        )
    closed = metrics.durations.count
    for title, counts in {
        "outcome": metrics.outcomes,
        "decision type": metrics.decision_types,
        "intent": metrics.intents,
        "model": metrics.models,
        "constitution": {name[:12]: times for name, times in metrics.constitutions.items()},
    }.items():
        if counts:
            stdout_console().print(_counts(title, counts, closed))
    if metrics.tools:
        stdout_console().print(_tools(metrics))


def _counts(title: str, counts: dict[str, int], of: int) -> Table:
    table = Table(title, "decisions", "share", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, times in counts.items():
        table.add_row(visible(name), f"{times:,}", f"{times / max(1, of):.1%}")
    return table


def _tools(metrics: MetricsSummary) -> Table:
    table = Table("tool", "calls", "sent", "refused", "succeeded", "p50", "p95", "p99", "errors", box=None, pad_edge=False)
    for column in table.columns[1:-1]:
        column.justify = "right"
    for name, tool in metrics.tools.items():
        rate = "-" if tool.success_rate is None else f"{tool.success_rate:.1%}"
        spent = [_ms(value) for value in (tool.durations.p50, tool.durations.p95, tool.durations.p99)]
        errors = ", ".join(f"{code} {times:,}" for code, times in tool.errors.items())
        table.add_row(visible(name), f"{tool.calls:,}", f"{tool.executed:,}", f"{tool.refused:,}", rate, *spent, errors)
    return table


def _durations(durations: Durations) -> str:
    if durations.average is None:
        return "-"
    percentiles = ", ".join(f"{name} {_ms(getattr(durations, name))}" for name in ("p50", "p95", "p99"))
    return f"{durations.average:,.0f} ms on average ({percentiles})"


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value:,} ms"

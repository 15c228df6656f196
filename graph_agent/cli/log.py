"""`graph-agent log list`, `show` and `metrics`, and `graph-agent budget`: read the record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.findings import used_text
from graph_agent.audit.metrics import Durations, MetricsSummary
from graph_agent.audit.queries import LogQueryService
from graph_agent.bootstrap import LOCAL_USER
from graph_agent.cli.database import open_log, open_queries
from graph_agent.cli.last import LAST, decision_id_of
from graph_agent.cli.options import AsJson, User, filter_by
from graph_agent.cli.running import print_stderr
from graph_agent.cli.show import (
    json_line,
    print_findings,
    print_record,
    print_result,
    print_rules,
    print_text,
    shorten,
    stdout_console,
)
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.facts import total_of, uses_by_window, window_start
from graph_agent.models.record import DecisionRecord
from graph_agent.record.operations import find_uses
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.reply.text import counted, visible
from graph_agent.settings import read_settings

if TYPE_CHECKING:
    # Only named in a signature: see `_sources`.
    from graph_agent.replays.argument_sources import ArgumentSources

_STYLES = {"SUCCESS": "green", "ERROR": "red", "REFUSAL": "yellow", "AMBIGUITY": "cyan", "PENDING": "yellow"}


@filter_by()
def list_decisions(
    *,
    filters: DecisionFilter,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Print at most this many.")] = 20,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Skip this many first.")] = 0,
    as_json: AsJson = False,
) -> None:
    """List decisions, newest first.

    With --json, print one object per line.
    """
    with open_queries() as (log, run):
        page = run(log.query_decisions(filters, limit=limit, offset=offset))
    for row in page.items:
        if as_json:
            typer.echo(json_line(row.to_json()))
            continue
        print_text(
            f"{row.created_at:%Y-%m-%d %H:%M:%S}  ",
            (row.decision_id, "dim"),
            f"  {row.decision_type:<20} ",
            (f"{row.outcome_category:<28} ", _STYLES.get(row.outcome_category.partition(":")[0], "")),
            shorten(row.message, 60),
            (f"  {counted(row.refused_calls, 'call')} refused" if row.refused_calls else "", "red"),
        )
    if page.has_more:
        total = f"{page.total:,}" if page.total_is_exact else f"at least {page.total:,}"
        print_stderr(f"{len(page.items)} of {total}; --offset {offset + len(page.items)} continues")


def show_decision(
    decision_id: Annotated[
        str | None,
        typer.Argument(metavar="DECISION_ID", help="Print this decision: an id of `log list`, or `last` (the default)."),
    ] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Print also where the arguments of each call came from.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print one decision: its record, and why it came out as it did.

    With --json, print the record itself.
    """
    with open_log() as (database, run):
        log = LogQueryService(database)
        decision_id = decision_id_of(decision_id or LAST, database, run)
        trace = run(log.get_decision_trace(decision_id))
        record = run(DatabaseAuditWriter(database).load(decision_id))
        found = run(_sources(database, decision_id)) if sources and isinstance(record, DecisionRecord) else {}
    if record is None:
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no such decision.")
    if as_json:
        typer.echo(json_line(record.to_json()))
    else:
        print_record(record, found)
        print_rules(trace)
        print_findings(trace)


async def _sources(database: Database, decision_id: str) -> dict[int, ArgumentSources]:
    # Imported here, because it walks the turn again, which the command does without otherwise.
    from graph_agent.replays.argument_sources import argument_sources
    from graph_agent.replays.sources import load_from_log

    return await argument_sources(database, await load_from_log(database, decision_id))


@filter_by("since", "until", "user_id", "conversation_id", "model")
def print_metrics(*, filters: DecisionFilter, as_json: AsJson = False) -> None:
    """Print totals, rates, percentiles and breakdowns of the decisions."""
    with open_queries() as (log, run):
        metrics = run(log.get_metrics_summary(filters=filters))
    print_result(metrics.to_json(), lambda: _print_metrics(metrics), as_json=as_json)


def budget(user: User = LOCAL_USER, as_json: AsJson = False) -> None:
    """Print what a user has used in this hour and day of the budgets that conditions set, by tool.

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
        typer.echo("Nothing that a condition counts was used today.")


def _print_metrics(metrics: MetricsSummary) -> None:
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
    if metrics.gates:
        stdout_console().print(_counts("stopped at the gate", metrics.gates, metrics.tool_calls, "calls"))
    if metrics.shadow:
        stdout_console().print(_shadow(metrics))


def _counts(title: str, counts: dict[str, int], of: int, unit: str = "decisions") -> Table:
    table = Table(title, unit, "share", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, times in counts.items():
        table.add_row(visible(name), f"{times:,}", f"{times / max(1, of):.1%}")
    return table


def _tools(metrics: MetricsSummary) -> Table:
    titles = ("tool", "calls", "sent", "refused", "succeeded", "unknown", "p50", "p95", "p99", "errors")
    table = Table(*titles, box=None, pad_edge=False)
    for column in table.columns[1:-1]:
        column.justify = "right"
    for name, tool in metrics.tools.items():
        rate = "-" if tool.success_rate is None else f"{tool.success_rate:.1%}"
        spent = [_ms(value) for value in (tool.durations.p50, tool.durations.p95, tool.durations.p99)]
        errors = ", ".join(f"{code} {times:,}" for code, times in tool.errors.items())
        sent = f"{tool.calls:,}", f"{tool.executed:,}", f"{tool.refused:,}", rate, f"{tool.unknown:,}"
        table.add_row(visible(name), *sent, *spent, errors)
    return table


def _shadow(metrics: MetricsSummary) -> Table:
    table = Table("rule in the shadow", "would have refused", "asked", "waited", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, rule in metrics.shadow.items():
        table.add_row(visible(name), f"{rule.refused:,}", f"{rule.asked:,}", f"{rule.waited:,}")
    return table


def _durations(durations: Durations) -> str:
    if durations.average is None:
        return "-"
    percentiles = ", ".join(f"{name} {_ms(getattr(durations, name))}" for name in ("p50", "p95", "p99"))
    return f"{durations.average:,.0f} ms on average ({percentiles})"


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value:,} ms"

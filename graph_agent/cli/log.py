"""`graph-agent log list` and `log show`: read the record."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import DecisionPage, LogQueryService
from graph_agent.cli.filters import filter_by, open_log, open_queries
from graph_agent.cli.running import AsJson, print_stderr
from graph_agent.cli.show import json_line, print_text
from graph_agent.cli.trace import print_findings, print_record, shorten
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.reply.counting import counted

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
        page: DecisionPage = run(log.query_decisions(filters, limit=limit, offset=offset))
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
    as_json: AsJson = False,
) -> None:
    """Print one decision: its record, and why it came out as it did.

    With --json, print the record itself.
    """
    with open_log() as (database, run):
        log = LogQueryService(database)
        if decision_id in (None, "last"):
            newest = run(log.query_decisions(limit=1)).items
            if not newest:
                raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "The log has no decision yet.")
            decision_id = newest[0].decision_id
        trace = run(log.get_decision_trace(decision_id))
        record = run(DatabaseAuditWriter(database).load(decision_id))
    if record is None:
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no such decision.")
    if as_json:
        typer.echo(json_line(record.to_json()))
    else:
        print_record(record)
        print_findings(trace)

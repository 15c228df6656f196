"""`graph-agent log`: the record, read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from graph_agent.cli import log_files, log_fixture, log_metrics, log_prune
from graph_agent.cli.choice import (
    ByModel,
    OfConversation,
    OfIntent,
    OfOutcome,
    OfStatus,
    OfType,
    OfUser,
    Since,
    Until,
    chosen,
    opened_log,
    opened_queries,
)
from graph_agent.cli.running import AsJson, tell
from graph_agent.cli.show import json_line, out
from graph_agent.cli.trace import print_findings, print_record, shortened
from graph_agent.errors import ServiceError, ServiceErrorCode

if TYPE_CHECKING:
    from graph_agent.audit.queries import DecisionPage

app = typer.Typer(help="Read the record of decisions.", no_args_is_help=True)
app.command("export")(log_files.export_decisions)
app.command("import")(log_files.import_decisions)
app.command("metrics")(log_metrics.print_metrics)
app.command("prune")(log_prune.prune_decisions)
app.command("fixture")(log_fixture.print_fixture)

_STYLES = {"SUCCESS": "green", "ERROR": "red", "REFUSAL": "yellow", "AMBIGUITY": "cyan", "PENDING": "yellow"}


@app.command("list")
def list_decisions(
    user: OfUser = None,
    conversation: OfConversation = None,
    since: Since = None,
    until: Until = None,
    decision_type: OfType = None,
    outcome: OfOutcome = None,
    intent: OfIntent = None,
    status: OfStatus = None,
    by_model: ByModel = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many.")] = 20,
    offset: Annotated[int, typer.Option("--offset", min=0, help="How many to leave out first.")] = 0,
    as_json: AsJson = False,
) -> None:
    """The latest decisions, newest first; with --json one object a line."""
    with opened_queries() as (log, run):
        filters = chosen(
            user_id=user,
            conversation_id=conversation,
            since=since,
            until=until,
            decision_type=decision_type,
            outcome=outcome,
            intent_type=intent,
            status=status,
            model=by_model,
        )
        page: DecisionPage = run(log.query_decisions(filters, limit=limit, offset=offset))
    console = out()
    for row in page.items:
        if as_json:
            typer.echo(json_line(row.to_json()))
            continue
        console.print(
            Text.assemble(
                f"{row.created_at:%Y-%m-%d %H:%M:%S}  ",
                (row.decision_id, "dim"),
                f"  {row.decision_type:<20} ",
                (f"{row.outcome_category:<28} ", _STYLES.get(row.outcome_category.partition(":")[0], "")),
                shortened(row.message, 60),
            )
        )
    if page.has_more:
        total = f"{page.total:,}" if page.total_is_exact else f"at least {page.total:,}"
        tell(f"{len(page.items)} of {total}; --offset {offset + len(page.items)} goes on")


@app.command("show")
def show_decision(
    decision_id: Annotated[str, typer.Argument(metavar="DECISION_ID", help="As `log list` tells it.")],
    as_json: AsJson = False,
) -> None:
    """Everything about one decision, and why it came out so; with --json the record itself."""
    with opened_log() as (database, run):
        from graph_agent.audit.queries import LogQueryService
        from graph_agent.record.writer import DatabaseAuditWriter

        trace = run(LogQueryService(database).get_decision_trace(decision_id))
        record = run(DatabaseAuditWriter(database).load(decision_id))
    if record is None:
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no such decision.")
    if as_json:
        typer.echo(json_line(record.to_json()))
    else:
        print_record(out(), record)
        print_findings(out(), trace)

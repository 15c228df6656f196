"""`graph-agent log fixture`: a logged decision as a test case for `validate`."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.cli.filters import build_filter, open_queries
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.record import DecisionRecord
from graph_agent.validation.fixtures import dump_fixtures, fixture_from_records

_TURNS = 20


def print_fixture(
    decision_id: Annotated[str, typer.Argument(metavar="DECISION_ID", help="Use this decision; `log list` prints the ids.")],
    name: Annotated[
        str | None,
        typer.Option("--test-id", metavar="NAME", help="Name the test case (default: the decision id).", show_default=False),
    ] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Leave out the earlier turns of the conversation.")] = False,
) -> None:
    """Print a decision as a YAML test case for `validate`.

    The case replays the earlier turns of the conversation and expects the same decision.
    """
    with open_queries() as (log, run):
        record = run(log.get_decision_trace(decision_id)).record
        if record is None:
            raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "The decision is still open.")
        records: list[DecisionRecord] = [record]
        if not alone:
            context = record.header.context
            filters = build_filter(
                conversation_id=context.conversation_id, user_id=context.user_id, until=record.header.started_at.isoformat()
            )
            before = run(log.query_decisions(filters, limit=_TURNS - 1)).items
            earlier = [run(log.get_decision_trace(row.decision_id)).record for row in reversed(before)]
            records = [*(one for one in earlier if one is not None), record]
    typer.echo(dump_fixtures([fixture_from_records(records, name)]), nl=False)

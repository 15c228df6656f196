"""`graph-agent log fixture`: a logged decision as a case for `validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from graph_agent.cli.choice import chosen, opened_queries
from graph_agent.errors import ServiceError, ServiceErrorCode

if TYPE_CHECKING:
    from graph_agent.models.record import DecisionRecord

_TURNS = 20


def print_fixture(
    decision_id: Annotated[str, typer.Argument(metavar="DECISION_ID", help="As `log list` tells it.")],
    name: Annotated[
        str | None, typer.Option("--test-id", metavar="NAME", help="What the case is called.", show_default="by its id")
    ] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Without the turns before it.")] = False,
) -> None:
    """A decision, after the turns of its conversation, as a YAML case that expects what was decided."""
    with opened_queries() as (log, run):
        from graph_agent.validation.fixtures import fixture_of, fixtures_yaml

        record = run(log.get_decision_trace(decision_id)).record
        if record is None:
            raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "The decision is still open.")
        records: list[DecisionRecord] = [record]
        if not alone:
            context = record.header.context
            filters = chosen(
                conversation_id=context.conversation_id, user_id=context.user_id, until=record.header.started_at.isoformat()
            )
            before = run(log.query_decisions(filters, limit=_TURNS - 1)).items
            earlier = [run(log.get_decision_trace(row.decision_id)).record for row in reversed(before)]
            records = [*(one for one in earlier if one is not None), record]
    typer.echo(fixtures_yaml([fixture_of(records, name)]), nl=False)

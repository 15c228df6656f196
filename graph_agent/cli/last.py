"""`last` in the place of the id of a decision: the newest one of the log."""

from __future__ import annotations

from graph_agent.audit.queries import LogQueryService
from graph_agent.audit.trace import LoggedDecision
from graph_agent.cli.database import open_log
from graph_agent.cli.running import Run
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode

LAST = "last"


def newest_decision(database: Database, run: Run) -> LoggedDecision:
    """Return the newest decision. Raises `ServiceError` DECISION_NOT_FOUND."""
    newest = run(LogQueryService(database).query_decisions(limit=1)).items
    if not newest:
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "The log has no decision yet.")
    return newest[0]


def decision_id_of(given: str, database: Database, run: Run) -> str:
    """Return the id that a user gave, or that of the newest decision for `last`. Raises `ServiceError`."""
    return newest_decision(database, run).decision_id if given == LAST else given


def last_ids() -> dict[str, str]:
    """Return the ids of the newest decision by the field of a filter. Raises `ServiceError`."""
    with open_log() as (database, run):
        found = newest_decision(database, run)
    return {"decision_id": found.decision_id, "conversation_id": found.conversation_id}

"""`last` in the place of an id: the newest decision of the log, or its conversation."""

from __future__ import annotations

from graph_agent.audit.queries import LogQueryService
from graph_agent.audit.trace import LoggedDecision
from graph_agent.chat.service import ChatService
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


def conversation_id_of(given: str | None, chat: ChatService, user: str, run: Run) -> str | None:
    """Return the id that a user gave, or that of the user's newest conversation for `last`. Raises `ServiceError`."""
    return run(newest_conversation(chat, user)) if given == LAST else given


async def newest_conversation(chat: ChatService, user: str) -> str:
    """Return the id of the user's newest conversation. Raises `ServiceError` CONVERSATION_NOT_FOUND."""
    page = await chat.conversations(user, limit=1)
    if not page.conversations:
        raise ServiceError(ServiceErrorCode.CONVERSATION_NOT_FOUND, "There is no conversation to continue yet.")
    return page.conversations[0].id


def last_ids() -> dict[str, str]:
    """Return the ids of the newest decision by the field of a filter. Raises `ServiceError`."""
    with open_log() as (database, run):
        found = newest_decision(database, run)
    return {"decision_id": found.decision_id, "conversation_id": found.conversation_id}

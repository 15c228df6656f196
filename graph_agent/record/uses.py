"""The counted calls of users, which are operations with amounts, and the tools that were called in a conversation."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, bindparam, func, or_, select, text

from graph_agent.models.facts import PastUse
from graph_agent.models.record import CallDisposition, CallState
from graph_agent.models.tools import UNKNOWN_CODES
from graph_agent.record.tables import call_operations, decision_logs, llm_call_logs, tool_invocation_logs

# Built once, because building a statement takes longer than running it.
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('uses of ' || :user, 0))")
_row, _call = call_operations.c, tool_invocation_logs.c
_USES = (
    select(_row.tool_name, _row.amounts, _row.intended_at, _row.state)
    .where(_row.user_id == bindparam("user"), _row.intended_at >= bindparam("since"), _row.amounts.is_not(None))
    .where(_row.state != CallState.VOID, _row.decision_id != bindparam("without"))
    .order_by(_row.intended_at)
)
_TOKENS = (
    select(func.coalesce(func.sum(llm_call_logs.c.total_tokens), 0))
    .join(decision_logs, decision_logs.c.decision_id == llm_call_logs.c.decision_id)
    .where(decision_logs.c.user_id == bindparam("user"), decision_logs.c.created_at >= bindparam("since"))
    .where(decision_logs.c.decision_id != bindparam("without"))
)
_CALLED = (
    select(_call.tool_name)
    .join(decision_logs, decision_logs.c.decision_id == _call.decision_id)
    .where(decision_logs.c.conversation_id == bindparam("conversation"), decision_logs.c.decision_id != bindparam("without"))
    .where(_call.disposition == CallDisposition.EXECUTED, or_(_call.success, _call.error_code.in_(sorted(UNKNOWN_CODES))))
    .distinct()
)


def lock_uses(connection: Connection, user_id: str) -> None:
    """Keep other transactions from counting calls of this user until this one ends. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"user": user_id})


def find_uses(connection: Connection, user_id: str, since: datetime, without: str = "") -> list[PastUse]:
    """Return the counted calls of a user since this time, oldest first, but for those of the decision `without`."""
    rows = connection.execute(_USES, {"user": user_id, "since": since, "without": without})
    return [PastUse(row.tool_name, row.amounts, row.intended_at, row.state == CallState.DONE) for row in rows]


def find_tokens(connection: Connection, user_id: str, since: datetime, without: str) -> int:
    """Return the tokens of the user's turns since this time, but for those of the decision `without`."""
    return int(connection.execute(_TOKENS, {"user": user_id, "since": since, "without": without}).scalar_one())


def find_called(connection: Connection, conversation_id: str, without: str) -> list[str]:
    """Return the tools that may have run in a conversation, sorted, but for those of the decision `without`."""
    return sorted(connection.execute(_CALLED, {"conversation": conversation_id, "without": without}).scalars())

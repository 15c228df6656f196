"""The counted calls of users, which are operations with amounts, and the tools that were called in a conversation."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, or_, select, text

from graph_agent.models.facts import PastUse
from graph_agent.models.record import CallDisposition, CallState
from graph_agent.models.tools import UNKNOWN_CODES
from graph_agent.record.tables import call_operations, decision_logs, llm_call_logs, tool_invocation_logs

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('uses of ' || :user, 0))")


def lock_uses(connection: Connection, user_id: str) -> None:
    """Keep other transactions from counting calls of this user until this one ends. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"user": user_id})


def find_uses(connection: Connection, user_id: str, since: datetime, without: str = "") -> list[PastUse]:
    """Return the counted calls of a user since this time, oldest first, but for those of the decision `without`."""
    row = call_operations.c
    wanted = (
        select(row.tool_name, row.amounts, row.intended_at, row.state)
        .where(row.user_id == user_id, row.intended_at >= since, row.amounts.is_not(None))
        .where(row.state != CallState.VOID, row.decision_id != without)
        .order_by(row.intended_at)
    )
    return [
        PastUse(found.tool_name, found.amounts, found.intended_at, found.state == CallState.DONE)
        for found in connection.execute(wanted)
    ]


def find_tokens(connection: Connection, user_id: str, since: datetime, without: str) -> int:
    """Return the tokens of the user's turns since this time, but for those of the decision `without`."""
    wanted = (
        select(func.coalesce(func.sum(llm_call_logs.c.total_tokens), 0))
        .join(decision_logs, decision_logs.c.decision_id == llm_call_logs.c.decision_id)
        .where(decision_logs.c.user_id == user_id, decision_logs.c.created_at >= since, decision_logs.c.decision_id != without)
    )
    return int(connection.execute(wanted).scalar_one())


def find_called(connection: Connection, conversation_id: str, without: str) -> list[str]:
    """Return the tools that may have run in a conversation, sorted, but for those of the decision `without`."""
    call = tool_invocation_logs.c
    wanted = (
        select(call.tool_name)
        .join(decision_logs, decision_logs.c.decision_id == call.decision_id)
        .where(decision_logs.c.conversation_id == conversation_id, decision_logs.c.decision_id != without)
        .where(call.disposition == CallDisposition.EXECUTED, or_(call.success, call.error_code.in_(sorted(UNKNOWN_CODES))))
        .distinct()
    )
    return sorted(connection.execute(wanted).scalars())

"""Settlements: the outcomes of calls whose outcome was unknown when their decision was closed.

A closed record never changes, so that its seal and its replay stay valid. A settlement is a separate report, written once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, String, cast, select, update

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import DecisionType
from graph_agent.models.record import CallDisposition, RecordHeader, RecordStatus
from graph_agent.models.tools import UNKNOWN_CODES, ToolResult
from graph_agent.record.chain import Sealer
from graph_agent.record.operations import state_of
from graph_agent.record.sealed_rows import add_row, remove_reports
from graph_agent.record.tables import call_operations, decision_logs, reports_table, tool_invocation_logs

KIND = "settlement"


class Settlement(Frozen):
    """The outcome of one call, learned after its decision was closed."""

    decision_id: str
    sequence: int
    result: ToolResult
    settled_at: UtcDatetime


@dataclass(frozen=True, slots=True)
class UnknownCall:
    """A call of a closed decision that may or may not have taken effect."""

    decision_id: str
    sequence: int
    tool_name: str
    arguments: dict[str, Any]
    user_id: str
    operation_key: str


def find_unknown_calls(connection: Connection, tools: Collection[str], since: datetime, limit: int) -> list[UnknownCall]:
    """Return calls of `tools` since this time whose outcome is unknown and not settled, oldest first."""
    calls, decisions = tool_invocation_logs.c, decision_logs.c
    report_id = f"{KIND}:" + calls.decision_id + ":" + cast(calls.sequence, String)
    settled = select(reports_table.c.report_id).where(reports_table.c.report_id == report_id).exists()
    wanted = (
        select(calls.decision_id, calls.sequence, calls.tool_name, calls.parameters)
        .add_columns(decisions.user_id, decisions.decision_type, decisions.header)
        .join(decision_logs, decisions.decision_id == calls.decision_id)
        .where(
            calls.invoked_at >= since,
            calls.tool_name.in_(list(tools)),
            calls.error_code.in_(sorted(UNKNOWN_CODES)),
            calls.disposition == CallDisposition.EXECUTED,
            decisions.status != RecordStatus.PENDING,
            decisions.header.is_not(None),
            ~settled,
        )
        .order_by(calls.invoked_at)
        .limit(limit)
    )
    return [
        UnknownCall(row.decision_id, row.sequence, row.tool_name, row.parameters or {}, row.user_id, _operation_key(row))
        for row in connection.execute(wanted)
    ]


def store_settlement(connection: Connection, settlement: Settlement, sealer: Sealer) -> None:
    """Store a settlement, unless the call has one."""
    row = {
        "report_id": f"{KIND}:{settlement.decision_id}:{settlement.sequence}",
        "kind": KIND,
        "created_at": settlement.settled_at,
        "passed": settlement.result.success,
        "report": settlement.to_json(),
    }
    stored = select(reports_table.c.report_id).where(reports_table.c.report_id == row["report_id"])
    if connection.execute(stored).first() is None:
        add_row(connection, reports_table, row, sealer)
        outcome = state_of(settlement.result.success, settlement.result.error_code)
        wanted = call_operations.c.decision_id == settlement.decision_id, call_operations.c.sequence == settlement.sequence
        connection.execute(update(call_operations).where(*wanted).values(state=outcome))


def remove_settlements(connection: Connection, before: datetime, sealer: Sealer) -> None:
    """Remove the settlements from before this time."""
    remove_reports(connection, (reports_table.c.kind == KIND) & (reports_table.c.created_at < before), sealer)


def settlements_of(connection: Connection, decision_id: str) -> list[Settlement]:
    """Return the settlements of one decision, in the order of its calls."""
    of_decision = reports_table.c.report_id.startswith(f"{KIND}:{decision_id}:", autoescape=True)
    stored = connection.execute(select(reports_table.c.report).where(reports_table.c.kind == KIND, of_decision)).scalars()
    return sorted((Settlement.model_validate(report) for report in stored), key=lambda found: found.sequence)


def _operation_key(row: Any) -> str:
    """Return the key under which the guard permitted the call: a confirmed call has the id of its pending action."""
    pending = RecordHeader.model_validate_json(row.header).context.pending_confirmation
    if row.decision_type == DecisionType.EXECUTE_PENDING and pending is not None:
        return pending.id
    return f"{row.decision_id}:{row.sequence}"

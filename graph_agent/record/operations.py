"""The operations of decisions: one row for each call that may change something, committed before the call is sent.

The row names the first attempt of the turn that may send the call. An attempt that finds the row of an earlier one does not
know whether the call was sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, bindparam, select, update

from graph_agent.db.prepared import PreparedStatement, insert_into
from graph_agent.models.record import (
    CallDisposition,
    CallOperation,
    CallState,
    DecisionRecord,
    EntryKind,
    RecordStatus,
    ToolInvocation,
)
from graph_agent.models.tools import UNKNOWN_CODES
from graph_agent.record.tables import call_operations

_OF_DECISION = call_operations.c.decision_id == bindparam("decision")
_OF_CALL = _OF_DECISION & (call_operations.c.sequence == bindparam("call_sequence"))

_INTEND = PreparedStatement(
    lambda dialect: insert_into(call_operations, dialect).on_conflict_do_nothing().returning(call_operations.c.sequence)
)
_SETTLE = PreparedStatement(update(call_operations).where(_OF_CALL))
_STATES = select(call_operations.c.sequence, call_operations.c.state).where(_OF_DECISION)
_VOID = PreparedStatement(
    update(call_operations).where(_OF_DECISION, call_operations.c.state == CallState.INTENDED).values(state=CallState.VOID)
)


def intend(connection: Connection, decision_id: str, attempt: int, operation: CallOperation, at: datetime) -> bool:
    """Insert the row of a call that is about to be sent; False if there is one."""
    row = {
        "decision_id": decision_id,
        "sequence": operation.sequence,
        "operation_key": operation.operation_key,
        "user_id": operation.user_id,
        "tool_name": operation.tool_name,
        "attempt": attempt,
        "state": CallState.INTENDED,
        "amounts": operation.amounts,
        "intended_at": at,
    }
    return _INTEND.first(connection, row) is not None


def settle(connection: Connection, decision_id: str, invocations: Iterable[ToolInvocation]) -> None:
    """Store the outcomes of calls that were sent; those that read have no row."""
    for invocation in invocations:
        if invocation.disposition is CallDisposition.EXECUTED:
            outcome = state_of(invocation.success, invocation.error_code)
            values = {"decision": decision_id, "call_sequence": invocation.sequence, "state": outcome}
            _SETTLE.run(connection, values)


def close(connection: Connection, record: DecisionRecord) -> None:
    """Store the outcomes that a closed decision has for its calls; the others were not sent."""
    called = any(entry.kind is EntryKind.EXECUTE for entry in record.entries)
    if called or record.status is RecordStatus.INTERRUPTED:
        # Also outcomes that were stored with their invocations: such a commit may have failed.
        settle(connection, record.header.decision_id, record.invocations)
        _VOID.run(connection, {"decision": record.header.decision_id})


def states_of(connection: Connection, decision_id: str) -> dict[int, CallState]:
    """Return the states of a decision's calls by their sequence; those that read have none."""
    return {row.sequence: row.state for row in connection.execute(_STATES, {"decision": decision_id})}


def state_of(success: bool, error_code: str | None) -> CallState:
    """Return the state of a call with this result."""
    return CallState.DONE if success else CallState.UNKNOWN if error_code in UNKNOWN_CODES else CallState.VOID

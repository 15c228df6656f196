"""The operations of decisions: one row for each call that may change something, committed before the call is sent.

The row names the first attempt of the turn that may send the call. An attempt that finds the row of an earlier one does not
know whether the call was sent. The counted calls of users are operations with amounts. A read has a row if a condition counts
it, or if one reads which calls were attempted: a turn that runs at the same time sees it from the moment at which it is sent.

A row has a MAC. The state is not covered by it, because it follows from the record of the decision and its settlements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, text, type_coerce, union, update
from sqlalchemy.types import NullType

from graph_agent.db import PreparedStatement, insert_into
from graph_agent.models.facts import PastUse
from graph_agent.models.record import (
    FACT_READS,
    CallDisposition,
    CallOperation,
    DecisionRecord,
    EntryKind,
    OperationState,
    RecordStatus,
    ToolInvocation,
)
from graph_agent.models.tools import UNKNOWN_CODES
from graph_agent.record.tables import call_operations, decision_logs, tool_invocation_logs
from graph_agent.record.tree.leaves import Sealer, columns_of, row_text

_OF_DECISION = call_operations.c.decision_id == bindparam("decision")
_OF_CALL = _OF_DECISION & (call_operations.c.sequence == bindparam("call_sequence"))

_INTEND = PreparedStatement(
    lambda dialect: insert_into(call_operations, dialect).on_conflict_do_nothing().returning(call_operations.c.sequence)
)
_SETTLE = PreparedStatement(update(call_operations).where(_OF_CALL))
_TAKE_RESERVED = (
    delete(call_operations)
    .where(_OF_CALL, call_operations.c.undoes.is_(None), call_operations.c.state == OperationState.INTENDED)
    .returning(call_operations.c.amounts, call_operations.c.attempt, call_operations.c.intended_at)
)
_STATES = select(call_operations.c.sequence, call_operations.c.state).where(_OF_DECISION)
_VOID = PreparedStatement(
    update(call_operations)
    .where(_OF_DECISION, call_operations.c.state == OperationState.INTENDED)
    .values(state=OperationState.VOID)
)

# Built once, because building a statement takes longer than running it.
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('uses of ' || :user, 0))")
_row, _call = call_operations.c, tool_invocation_logs.c
_USES = (
    select(_row.tool_name, _row.amounts, _row.intended_at, _row.state)
    .where(_row.user_id == bindparam("user"), _row.intended_at >= bindparam("since"), _row.amounts.is_not(None))
    .where(_row.state != OperationState.VOID, _row.decision_id != bindparam("without"))
    .order_by(_row.intended_at)
)
_TOKENS = (
    select(func.coalesce(func.sum(decision_logs.c.total_tokens), 0))
    .where(decision_logs.c.user_id == bindparam("user"), decision_logs.c.created_at >= bindparam("since"))
    .where(decision_logs.c.decision_id != bindparam("without"))
)
_OF_CONVERSATION = (
    (decision_logs.c.conversation_id == bindparam("conversation"))
    & (decision_logs.c.user_id == bindparam("user"))
    & (decision_logs.c.decision_id != bindparam("without"))
)
_CALLS = union(
    select(_call.tool_name, _call.success.label("succeeded"))
    .join(decision_logs, decision_logs.c.decision_id == _call.decision_id)
    .where(_OF_CONVERSATION, _call.disposition == CallDisposition.EXECUTED),
    # Calls of a turn that runs now, and unknown outcomes that were settled since.
    select(_row.tool_name, (_row.state == OperationState.DONE).label("succeeded"))
    .join(decision_logs, decision_logs.c.decision_id == _row.decision_id)
    # A read for facts is no call of the conversation.
    .where(_OF_CONVERSATION, _row.state != OperationState.VOID, _row.sequence < FACT_READS),
)

_NEWEST = (
    select(_call.tool_name, _call.result)
    .join(decision_logs, decision_logs.c.decision_id == _call.decision_id)
    .where(_OF_CONVERSATION, _call.disposition == CallDisposition.EXECUTED, _call.success)
    .where(_call.tool_name.in_(bindparam("tools", expanding=True)))
    .order_by(_call.invoked_at.desc(), _call.sequence.desc())
    .limit(1)
)


def intend(
    connection: Connection, decision_id: str, attempt: int, operation: CallOperation, at: datetime, sealer: Sealer
) -> bool:
    """Insert the row of a call that is about to be sent; False if there is one, or one that undoes the same operation."""
    given = {name: value for name, value in operation._asdict().items() if name in _row}
    row: dict[str, Any] = {"decision_id": decision_id, **given, "attempt": attempt}
    row.update(state=OperationState.INTENDED, intended_at=at)
    stored = {name: encode(row.get(name)) for name, _, encode in columns_of(connection.dialect, call_operations)}
    row["mac"] = _macs(stored, sealer)[0]
    return _INTEND.first(connection, row) is not None


def claim_undo(
    connection: Connection, decision_id: str, attempt: int, operation: CallOperation, at: datetime, sealer: Sealer
) -> tuple[bool, str | None]:
    """Insert the row of a call that undoes another one, or replace the one that its reservation has inserted.

    Return False if another attempt may have sent the call, and the decision that has undone the other one, or may have.
    """
    counted = connection.execute(_TAKE_RESERVED, {"decision": decision_id, "call_sequence": operation.sequence}).first()
    if counted is not None:
        # Nothing was sent under it: the claim comes before the call.
        operation = operation._replace(amounts=counted.amounts)
        attempt, at = counted.attempt, counted.intended_at
    if intend(connection, decision_id, attempt, operation, at, sealer):
        return True, None
    if counted is not None:
        intend(connection, decision_id, attempt, operation._replace(undoes=None), at, sealer)
    original, _, number = (operation.undoes or "").rpartition(":")
    by = undone_by(connection, original).get(int(number))
    return False, None if by is None or by == (decision_id, operation.sequence) else by[0]


def undone_by(connection: Connection, decision_id: str) -> dict[int, tuple[str, int]]:
    """Return the calls of a decision that were undone, or may have been, each with the decision and the call that undoes it."""
    undoes, prefix = _row.undoes, f"{decision_id}:"
    in_force = undoes.is_not(None), _row.state != OperationState.VOID
    wanted = select(undoes, _row.decision_id, _row.sequence).where(undoes.startswith(prefix, autoescape=True), *in_force)
    found = connection.execute(wanted)
    return {int(row.undoes.removeprefix(prefix)): (row.decision_id, row.sequence) for row in found}


def request_of(connection: Connection, decision_id: str, sequence: int, sealer: Sealer) -> str | None:
    """Return the digest of a call that may be sent again; None if it may not, or if its row has no valid MAC."""
    columns = [type_coerce(column, NullType()).label(column.name) for column in call_operations.columns]
    given = {"decision": decision_id, "call_sequence": sequence}
    row = connection.execute(select(*columns).where(_OF_CALL), given).one_or_none()
    return row.request if row is not None and is_intended_by_us(row._mapping, sealer) else None


def is_intended_by_us(stored: Mapping[Any, Any], sealer: Sealer) -> bool:
    """True if the raw row of an operation has its MAC."""
    try:
        return stored["mac"] in _macs(stored, sealer)
    except (TypeError, ValueError):
        # A value of another type, which SQLite stores in any column.
        return False


def _macs(stored: Mapping[Any, Any], sealer: Sealer) -> list[str]:
    return sealer.macs("operation", text=row_text(call_operations, stored, without=("state", "mac")))


def settle(connection: Connection, decision_id: str, invocations: Iterable[ToolInvocation]) -> None:
    """Store the outcomes of calls that were sent; those that read have no row."""
    for invocation in invocations:
        if invocation.disposition is CallDisposition.EXECUTED:
            outcome = state_of(invocation.success, invocation.error_code)
            _SETTLE.run(connection, {"decision": decision_id, "call_sequence": invocation.sequence, "state": outcome})


def close(connection: Connection, record: DecisionRecord) -> None:
    """Store the outcomes that a closed decision has for its calls; the others were not sent."""
    called = any(entry.kind in (EntryKind.EXECUTE, EntryKind.READ) for entry in record.entries)
    if called or record.status is RecordStatus.INTERRUPTED:
        # Also outcomes that were stored with their invocations: such a commit may have failed.
        settle(connection, record.header.decision_id, record.invocations)
        for entry in record.entries:
            if entry.kind is EntryKind.READ and entry.operation is not None:
                # It counts, whatever its result was.
                done = {"decision": record.header.decision_id, "call_sequence": entry.operation, "state": OperationState.DONE}
                _SETTLE.run(connection, done)
        _VOID.run(connection, {"decision": record.header.decision_id})


def states_of(connection: Connection, decision_id: str) -> dict[int, OperationState]:
    """Return the states of a decision's calls by their sequence; those that read have none."""
    return {row.sequence: row.state for row in connection.execute(_STATES, {"decision": decision_id})}


def state_of(success: bool, error_code: str | None) -> OperationState:
    """Return the state of a call with this result."""
    return OperationState.DONE if success else OperationState.UNKNOWN if error_code in UNKNOWN_CODES else OperationState.VOID


def lock_uses(connection: Connection, user_id: str) -> None:
    """Keep other transactions from counting calls of this user until this one ends. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"user": user_id})


def find_uses(connection: Connection, user_id: str, since: datetime, without: str = "") -> list[PastUse]:
    """Return the counted calls of a user since this time, oldest first, but for those of the decision `without`."""
    rows = connection.execute(_USES, {"user": user_id, "since": since, "without": without})
    return [PastUse(row.tool_name, row.amounts, row.intended_at, row.state == OperationState.DONE) for row in rows]


def find_newest(
    connection: Connection, user_id: str, conversation_id: str, tools: Sequence[str], without: str
) -> tuple[str, Any] | None:
    """Return the tool and the data of the newest success of one of `tools`; the other arguments as in `find_calls`."""
    row = connection.execute(
        _NEWEST, {"user": user_id, "conversation": conversation_id, "tools": list(tools), "without": without}
    ).first()
    return None if row is None else (row.tool_name, row.result)


def find_tokens(connection: Connection, user_id: str, since: datetime, without: str) -> int:
    """Return the tokens of the user's turns since this time, but for those of the decision `without`."""
    return int(connection.execute(_TOKENS, {"user": user_id, "since": since, "without": without}).scalar_one())


def find_calls(connection: Connection, user_id: str, conversation_id: str, without: str) -> tuple[list[str], list[str]]:
    """Return the tools of a user's calls in a conversation, but for the decision `without`: `succeeded` and `attempted`.

    Both as in `Facts`.
    """
    given = {"user": user_id, "conversation": conversation_id, "without": without}
    rows = connection.execute(_CALLS, given).all()
    return sorted({row.tool_name for row in rows if row.succeeded}), sorted({row.tool_name for row in rows})

"""Settlements: the outcomes of calls whose outcome was unknown when their decision was closed.

A closed record never changes, so that its seal and its replay stay valid. A settlement is a separate report, written once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, String, Table, and_, cast, delete, func, or_, select, update

from graph_agent.db import Database, read_pages
from graph_agent.due.table import DueTable, WorkKind
from graph_agent.errors import ToolErrorCode
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.record import CallDisposition, DecisionRecord, RecordHeader, RecordStatus
from graph_agent.models.tools import UNKNOWN_CODES, ToolResult
from graph_agent.record.operations import state_of
from graph_agent.record.tables import CLOSED, call_operations, decision_logs, reports_table, tool_invocation_logs
from graph_agent.record.tree.leaves import Sealer, insert_leaf_row
from graph_agent.record.tree.statements import Statement, note_removal
from graph_agent.record.tree.tables import LeafKind

KIND = "settlement"
_ID_LENGTH = 36
_WITHOUT_NUMBER = func.rtrim(func.substr(reports_table.c.report_id, len(KIND) + 2), "0123456789")
OF_DECISION = func.substr(_WITHOUT_NUMBER, 1, func.length(_WITHOUT_NUMBER) - 1)
"""The id of the decision of a settlement, from that of its report."""

_calls, _rows = tool_invocation_logs.c, call_operations.c
_OPERATION_OF_CALL = (_rows.decision_id == _calls.decision_id) & (_rows.sequence == _calls.sequence)
# A text also where others wrote another type into the column.
_KEY = func.coalesce(cast(_rows.operation_key, String), _calls.decision_id + ":" + cast(_calls.sequence, String)).label(
    "operation_key"
)
"""The key under which a call was sent: that of its operation, which was committed before it. A read has none of its own."""


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
    error_code: ToolErrorCode
    invoked_at: datetime
    roles: tuple[str, ...]


class SuccessfulCall(NamedTuple):
    """A call that its decision records as successful."""

    decision_id: str
    sequence: int
    tool_name: str
    operation_key: str


class UnknownOutcomes:
    """Makes it due to learn the unknown outcomes of a decision, in the commit that closes it."""

    def __init__(self, due: DueTable, server_of: Callable[[str], str] = lambda _: "") -> None:
        """`server_of` returns the name of the server of a tool, whose lane the work gets."""
        self._due = due
        self._server_of = server_of

    def put(self, connection: Connection, record: DecisionRecord) -> None:
        """Make a row due for each call whose outcome is unknown. A call that only reads has no operation, and no outcome."""
        sent = [call for call in record.invocations if call.disposition is CallDisposition.EXECUTED]
        unknown = {call.sequence: call.tool_name for call in sent if call.error_code in UNKNOWN_CODES}
        if not unknown:
            return
        decision_id = record.header.decision_id
        wanted = select(_rows.sequence).where(_rows.decision_id == decision_id, _rows.sequence.in_(list(unknown)))
        for sequence in connection.execute(wanted.order_by(_rows.sequence)).scalars().all():
            key, lane = settle_key(decision_id, sequence), self._server_of(unknown[sequence])
            self._due.put(connection, WorkKind.SETTLE, key, lane=lane, user_id=record.header.context.user_id)


def settle_key(decision_id: str, sequence: int) -> str:
    """Return the key of the work to learn the outcome of a call."""
    return f"{decision_id}:{sequence}"


def find_unknown_call(connection: Connection, key: str) -> UnknownCall | None:
    """Return the call of a `settle_key`; None if its outcome is known or settled, or its decision is not stored any more."""
    decision_id, _, sequence = key.rpartition(":")
    if not sequence.isdigit():
        return None
    calls, decisions = tool_invocation_logs.c, decision_logs.c
    settled = select(reports_table.c.report_id).where(reports_table.c.report_id == report_id(decision_id, int(sequence)))
    wanted = (
        select(
            calls.decision_id,
            calls.sequence,
            calls.tool_name,
            calls.parameters,
            decisions.user_id,
            _KEY,
            calls.error_code,
            calls.invoked_at,
            decisions.header,
        )
        .join(decision_logs, decisions.decision_id == calls.decision_id)
        .outerjoin(call_operations, _OPERATION_OF_CALL)
        .where(
            calls.decision_id == decision_id,
            calls.sequence == int(sequence),
            calls.error_code.in_(sorted(UNKNOWN_CODES)),
            calls.disposition == CallDisposition.EXECUTED,
            decisions.status != RecordStatus.PENDING,
            decisions.header.is_not(None),
            ~settled.exists(),
        )
    )
    row = connection.execute(wanted).one_or_none()
    if row is None:
        return None
    return UnknownCall(
        row.decision_id,
        row.sequence,
        row.tool_name,
        row.parameters or {},
        row.user_id,
        row.operation_key,
        ToolErrorCode(row.error_code),
        row.invoked_at,
        _roles(row.header),
    )


def _roles(header: str) -> tuple[str, ...]:
    try:
        return RecordHeader.model_validate_json(header).context.roles
    except ValueError:
        # It was changed by hand.
        return ()


async def successful_calls(database: Database, tools: Collection[str], since: datetime) -> AsyncIterator[list[SuccessfulCall]]:
    """Yield the calls of `tools` since this time that a decision of this installation records as successful, in pages."""
    calls, decisions = tool_invocation_logs.c, decision_logs.c
    succeeded = and_(
        calls.tool_name.in_(list(tools)),
        calls.disposition == CallDisposition.EXECUTED,
        calls.success,
        calls.invoked_at >= since,
    )
    of_decision = select(calls.sequence).where(calls.decision_id == decisions.decision_id, succeeded).exists()
    # Imported decisions were not opened here.
    closed = select(decisions.decision_id).where(decisions.opening_seal.is_not(None), CLOSED, of_decision)
    async for page in read_pages(database.read, closed, decisions.decision_id):
        made = (
            select(calls.decision_id, calls.sequence, calls.tool_name, _KEY)
            .outerjoin(call_operations, _OPERATION_OF_CALL)
            .where(calls.decision_id.in_([row.decision_id for row in page]), succeeded)
        )
        yield [SuccessfulCall._make(call) for call in await database.read(partial(_all_rows, query=made))]


def find_confirmed_keys(connection: Connection, keys: Collection[str], since: datetime, until: datetime) -> set[str]:
    """Return those of these keys ID:NUMBER of a ledger that are of a question, not of a decision.

    They are the keys of the further calls of a card that a user has confirmed between `since` and `until`.
    """
    ids = {key[:_ID_LENGTH] for key in keys}
    decisions = connection.execute(select(decision_logs.c.decision_id).where(decision_logs.c.decision_id.in_(ids))).scalars()
    others = ids - set(decisions)
    asked = [key for key in keys if key[:_ID_LENGTH] in others]
    if not asked:
        return set()
    # Without the times it would read the whole table.
    when = _rows.intended_at.between(since, until)
    of_question = func.substr(_rows.operation_key, 1, _ID_LENGTH) != _rows.decision_id
    found = select(_rows.operation_key).where(when, _rows.operation_key.in_(asked), of_question)
    return set(connection.execute(found).scalars())


def operation_differences(operations: Table, keys: Sequence[str]) -> Callable[[Connection], list[tuple[str, str]]]:
    """Return the query for those of these keys DECISION:NUMBER of a ledger that are not of the decision's user and calls.

    It returns the id of each decision, and a sentence.
    """
    calls, decisions, key = tool_invocation_logs.c, decision_logs.c, operations.c.key
    is_call = and_(
        calls.decision_id == decisions.decision_id,
        key == calls.decision_id + ":" + cast(calls.sequence, String),
        # In a decision the name of a tool may begin with that of its server.
        calls.tool_name.endswith(operations.c.tool_name),
    )
    differing = (
        select(decisions.decision_id)
        .join_from(operations, decision_logs, decisions.decision_id == func.substr(key, 1, _ID_LENGTH))
        .where(key.in_(keys))
        # A turn that was interrupted may have been closed without its calls.
        .where(decisions.status == RecordStatus.COMPLETED)
        .where(or_(operations.c.user_id != decisions.user_id, ~select(calls.sequence).where(is_call).exists()))
    )
    what = "the ledger has an operation of another user, or one that is none of its calls"
    return lambda connection: [(decision_id, what) for decision_id in connection.execute(differing).scalars()]


def report_id(decision_id: str, sequence: int) -> str:
    """Return the id of the settlement of a call."""
    return f"{KIND}:{decision_id}:{sequence}"


def store_settlement(connection: Connection, settlement: Settlement, sealer: Sealer) -> None:
    """Store a settlement, unless the call has one."""
    row = {
        "report_id": report_id(settlement.decision_id, settlement.sequence),
        "kind": KIND,
        "created_at": settlement.settled_at,
        "passed": settlement.result.success,
        "report": settlement.to_json(),
    }
    wanted = (call_operations.c.decision_id == settlement.decision_id) & (call_operations.c.sequence == settlement.sequence)
    # Another process may have asked at the same time: it stores its settlement first, or waits here.
    connection.execute(select(call_operations.c.sequence).where(wanted).with_for_update())
    stored = select(reports_table.c.report_id).where(reports_table.c.report_id == row["report_id"])
    if connection.execute(stored).first() is None:
        insert_leaf_row(connection, LeafKind.SETTLEMENT, reports_table, row, sealer)
        outcome = state_of(settlement.result.success, settlement.result.error_code)
        connection.execute(update(call_operations).where(wanted).values(state=outcome))


def remove_settlements(connection: Connection, which: ColumnElement[bool], removal: Statement, sealer: Sealer) -> None:
    """Remove the settlements that match; `removal` is what will be stated about it."""
    matching = (reports_table.c.kind == KIND) & which
    removed = connection.execute(delete(reports_table).where(matching).returning(reports_table.c.report_id)).scalars().all()
    note_removal(connection, LeafKind.SETTLEMENT, removed, removal, sealer)


def settlements_of(connection: Connection, decision_id: str) -> list[Settlement]:
    """Return the settlements of one decision, in the order of its calls."""
    of_decision = reports_table.c.report_id.startswith(f"{KIND}:{decision_id}:", autoescape=True)
    stored = connection.execute(select(reports_table.c.report).where(reports_table.c.kind == KIND, of_decision)).scalars()
    return sorted((Settlement.model_validate(report) for report in stored), key=lambda found: found.sequence)


def _all_rows(connection: Connection, query: Select[Any]) -> Sequence[Row[Any]]:
    return connection.execute(query).all()

"""The writing side of the log, called by hand: the objects of the engine and the keywords of the engine contract."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from graph_agent import AuditWriter
from graph_agent.clock import RandomIds
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode, TurnTakenOverError
from graph_agent.models.record import (
    CallDisposition,
    CallOperation,
    DecisionOpening,
    DecisionRecord,
    EntryKind,
    InterruptReason,
    OpenTurn,
    OperationState,
    RecordEntry,
    RecordStatus,
)
from graph_agent.models.tools import ToolResult
from graph_agent.record.tables import call_operations, decision_logs, tool_invocation_logs
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from tests.audit.builders import make_record
from tests.scripted_turns import TableServer, asks, calls, done, engine_of, failed

LIST: tuple[str, dict[str, Any]] = ("list_tasks", {})
ADDS = [("add_task", {"description": description}) for description in ("milk", "bread", "eggs")]
OUTCOMES = [done(), failed(ToolErrorCode.NOT_FOUND), failed(ToolErrorCode.TIMEOUT_ERROR)]
STATES = [OperationState.DONE, OperationState.VOID, OperationState.UNKNOWN]

OPENED: dict[str, Any] = {"decision_id": "d", "conversation_id": "c", "user_id": "ann", "message": "add a task"}


async def test_the_engine_contracts_keywords_write_the_opening_row_and_the_calls(log: Database) -> None:
    writer: AuditWriter = DatabaseAuditWriter(log)
    await writer.write_decision_log(
        **OPENED, intent_type="LLM_PROCESSING", decision_type="PENDING", outcome_category="PENDING", duration_ms=0
    )
    for sequence, (success, code, message) in enumerate([(True, None, None), (False, "NOT_FOUND", "no task")], start=1):
        await writer.write_tool_invocation_log(
            decision_id="d",
            tool_name="add_task",
            parameters={"description": "x"},
            result={"id": 1},
            success=success,
            error_code=code,
            error_message=message,
            duration_ms=7,
            sequence=sequence,
        )

    decisions = select(
        decision_logs.c.message, decision_logs.c.intent_type, decision_logs.c.decision_type, decision_logs.c.status
    )
    (decision,) = log.read_now(lambda connection: list(connection.execute(decisions)))
    assert tuple(decision) == ("add a task", "LLM_PROCESSING", "PENDING", RecordStatus.PENDING)
    columns = tool_invocation_logs.c
    invocations = select(
        columns.sequence, columns.result, columns.success, columns.error_code, columns.error_message, columns.disposition
    ).order_by(columns.sequence)
    assert [tuple(row) for row in log.read_now(lambda connection: list(connection.execute(invocations)))] == [
        (1, {"id": 1}, True, None, None, CallDisposition.EXECUTED),
        (2, {"id": 1}, False, "NOT_FOUND", "no task", CallDisposition.EXECUTED),
    ]


async def test_the_operation_of_a_change_is_written_before_it_is_sent_and_settled_with_its_outcome(log: Database) -> None:
    seen: list[Any] = []

    def look(_: dict[str, Any]) -> ToolResult:
        seen.append(_operations(log))
        return OUTCOMES[len(seen) - 1]

    server = TableServer({"add_task": look}, ledger=False)
    engine = engine_of(calls(LIST, *ADDS), says("Done."), server=server, audit=DatabaseAuditWriter(log))
    decision_id = (await engine.run(asks())).decision.decision_id

    rows = [(decision_id, sequence, f"{decision_id}:{sequence}", "ann", "add_task", 1) for sequence in (2, 3, 4)]
    intended = OperationState.INTENDED
    assert [[state for *_, state in found] for found in seen] == [
        [intended],
        [OperationState.DONE, intended],
        [OperationState.DONE, OperationState.VOID, intended],
    ]
    assert _operations(log) == [(*row, state) for row, state in zip(rows, STATES, strict=True)]


async def test_of_two_attempts_one_may_send_a_call(log: Database) -> None:
    writer = DatabaseAuditWriter(log)
    await writer.write_opening(DecisionOpening(**OPENED))
    operation = CallOperation(sequence=1, operation_key="d:1", user_id="ann", tool_name="add_task")
    assert [await writer.write_progress("d", operation=operation) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("ledger", [False, True])
async def test_a_call_whose_operation_another_attempt_has_is_sent_only_with_a_ledger(log: Database, ledger: bool) -> None:
    writer = DatabaseAuditWriter(log)
    decision_id = RandomIds().new()

    async def add(arguments: dict[str, Any]) -> ToolResult:
        operation = CallOperation(sequence=3, operation_key="k", user_id="ann", tool_name="add_task")
        if arguments["description"] == "milk":
            # The other attempt is faster.
            assert await writer.write_progress(decision_id, operation=operation)
        return done()

    server = TableServer({"add_task": add}, ledger=ledger)
    engine = engine_of(calls(*ADDS), says("Added."), says("Never said."), server=server, audit=writer)
    record = (await engine.run(asks(), decision_id=decision_id)).record
    assert [arguments["description"] for _, arguments, *_ in server.sent] == ["milk", "bread", "eggs"][: 3 if ledger else 2]
    if ledger:
        assert record.decision.reply == "Added."
        return
    reasons = [entry.result["reason"] for entry in record.entries if entry.kind is EntryKind.INTERRUPT]
    assert (record.status, reasons) == (RecordStatus.INTERRUPTED, [InterruptReason.RESENT])
    assert [state for *_, state in _operations(log)] == [OperationState.DONE, OperationState.DONE, OperationState.UNKNOWN]
    assert record.decision.reply.endswith("Not certain: not known whether this was done: Add task 'eggs'.")


async def test_a_change_that_was_not_sent_is_void_once_its_decision_is_closed(log: Database) -> None:
    record = make_record(1).replace(status=RecordStatus.INTERRUPTED)
    await intend_and_close(log, record, sequence=9)
    assert [state for *_, state in _operations(log)] == [OperationState.VOID]


async def test_an_outcome_whose_commit_failed_is_stored_when_the_decision_is_closed(log: Database) -> None:
    entry = RecordEntry(n=0, kind=EntryKind.EXECUTE, result={"success": True})
    record = make_record(1, calls=({"tool_name": "add_task"},)).replace(entries=[entry])
    await intend_and_close(log, record, sequence=1)
    assert [state for *_, state in _operations(log)] == [OperationState.DONE]


async def test_a_decision_that_another_process_has_continued_is_not_closed(log: Database) -> None:
    record = make_record(1)
    first, second = (RecordEntry(n=n, kind=EntryKind.EXECUTE, result={"success": True}) for n in range(2))
    running, other = DatabaseAuditWriter(log), DatabaseAuditWriter(log)
    await running.write_opening(DecisionOpening.of(record.header, {}))
    decision_id = record.header.decision_id
    await running.write_progress(decision_id, entries=[first])
    await other.load(decision_id)
    await running.write_progress(decision_id, entries=[second])
    with pytest.raises(TurnTakenOverError):
        await other.close_decision_log(record)
    assert isinstance(await other.load(decision_id), OpenTurn)
    assert await other.close_decision_log(record) == record


async def intend_and_close(log: Database, record: DecisionRecord, *, sequence: int) -> None:
    """Open a decision, store the operation of one call, and close the decision without the commit of its outcome."""
    writer = DatabaseAuditWriter(log)
    await writer.write_opening(DecisionOpening.of(record.header, {}))
    operation = CallOperation(sequence=sequence, operation_key="k", user_id="ann", tool_name="add_task")
    assert await writer.write_progress(record.header.decision_id, operation=operation)
    await writer.close_decision_log(record)


def _operations(log: Database) -> list[tuple[Any, ...]]:
    columns = call_operations.c
    wanted = select(columns.decision_id, columns.sequence, columns.operation_key, columns.user_id, columns.tool_name)
    wanted = wanted.add_columns(columns.attempt, columns.state).order_by(columns.sequence)
    return log.read_now(lambda connection: [tuple(row) for row in connection.execute(wanted)])

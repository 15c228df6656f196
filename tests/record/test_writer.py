"""The writing side of the log, called by hand: the objects of the engine and the keywords of the engine contract."""

from __future__ import annotations

from sqlalchemy import select

from graph_agent import AuditWriter
from graph_agent.db import Database
from graph_agent.models.record import CallDisposition, RecordStatus
from graph_agent.record.tables import decision_logs, tool_invocation_logs
from graph_agent.record.writer import DatabaseAuditWriter

OPENED = {"decision_id": "d", "conversation_id": "c", "user_id": "ann", "message": "add a task"}


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

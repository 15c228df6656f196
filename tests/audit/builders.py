"""Builders of decision records as the engine writes them, and a function that stores them in a log."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select

from graph_agent.db import Database
from graph_agent.models.canonical import digest
from graph_agent.models.decision import AgentDecision, DecisionContext, DecisionType, IntentType, OutcomeCategory, UserIntent
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.models.record import DecisionRecord, EntryKind, RecordEntry, RecordHeader, RecordStatus, ToolInvocation
from graph_agent.record.blobs import store_texts
from graph_agent.record.projection import decision_row, invocation_rows
from graph_agent.record.tables import decision_logs, reports_table, tool_invocation_logs
from graph_agent.record.tree.leaves import RecordKey, Sealer, new_leaf
from graph_agent.record.tree.tables import LeafKind

NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
CONSTITUTION = "the constitution"
TEXTS = {digest(text): text for text in (CONSTITUTION, "the tools", "the settings")}


def make_record(
    number: int,
    *,
    user: str = "ann",
    conversation: str = "c1",
    message: str = "add a task",
    outcome: OutcomeCategory = OutcomeCategory.TASK_COMPLETED,
    decision_type: DecisionType = DecisionType.INVOKE_TOOL,
    intent: IntentType | None = IntentType.CREATE_TASK,
    at: datetime | None = None,
    ms: int = 100,
    tokens: int | None = None,
    model: str = "gemini",
    constitution: str = CONSTITUTION,
    calls: tuple[dict[str, Any], ...] = (),
    status: RecordStatus = RecordStatus.COMPLETED,
) -> DecisionRecord:
    """Return the record of decision `number`; it starts `number` minutes after noon unless `at` is given."""
    started = at or NOON + timedelta(minutes=number)
    question = decision_type is DecisionType.ASK_CLARIFICATION
    usage = None if tokens is None else TokenUsage(prompt_tokens=tokens, completion_tokens=1, total_tokens=tokens + 1)
    decision_id = str(uuid.UUID(int=number))
    answer = LLMResponse(content="done", finish_reason="stop", usage=usage)
    return DecisionRecord(
        header=RecordHeader(
            decision_id=decision_id,
            context=DecisionContext(user_id=user, conversation_id=conversation, message=message),
            started_at=started,
            model=model,
            constitution=digest(constitution),
            tools=digest("the tools"),
            settings=digest("the settings"),
            prompt=digest(constitution),
        ),
        entries=[RecordEntry(n=0, kind=EntryKind.MODEL, request=digest("asked"), result=answer.to_json(), ms=ms)],
        status=status,
        states=["BUILD_REQUEST", "INVOKE_LLM", "CHECK_RESPONSE", "BUILD_DECISION"],
        iterations=0,
        usage=usage,
        decision=AgentDecision(
            decision_type=decision_type,
            response_text=None if question else "done",
            clarification_question="which one?" if question else None,
            decision_id=decision_id,
            intent=None if intent is None else UserIntent(intent_type=intent, confidence=1.0),
            outcome_category=outcome,
        ),
        invocations=[
            ToolInvocation(
                **{
                    "sequence": sequence,
                    "tool_name": "add_task",
                    "parameters": {},
                    "success": True,
                    "invoked_at": started,
                    **call,
                }
            )
            for sequence, call in enumerate(calls, start=1)
        ],
        ended_at=started + timedelta(milliseconds=ms),
        duration_ms=ms,
    )


def store_records(log: Database, *records: DecisionRecord, texts: dict[str, str] | None = None, key: RecordKey = None) -> None:
    """Store closed records in the log, with the texts they reference; `key` makes the MACs of their leaves."""
    known = {**TEXTS, **(texts or {})}

    def insert_records(connection: Connection) -> None:
        rows_of_decisions = []
        for record in records:
            header = record.header
            row = decision_row(record.to_json())
            leaf = new_leaf(LeafKind.DECISION, header.decision_id, row["record"], Sealer(key))
            rows_of_decisions.append({**row, "salt": leaf.salt})
            leaf.store(connection)
            referenced = {header.constitution, header.tools, header.settings, header.prompt} & known.keys()
            store_texts(connection, {name: known[name] for name in referenced}, header.started_at)
        for model, rows in (
            (decision_logs, rows_of_decisions),
            (tool_invocation_logs, [row for record in records for row in invocation_rows(record.to_json())]),
        ):
            if rows:
                connection.execute(insert(model), rows)

    log.write_now(insert_records)


async def stored_reports(log: Database, kind: str) -> list[dict[str, Any]]:
    """Return the stored reports of one kind."""
    wanted = select(reports_table.c.report).where(reports_table.c.kind == kind)
    return await log.read(lambda connection: list(connection.execute(wanted).scalars()))

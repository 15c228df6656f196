"""Decisions that were made before a turn began: a limit reached, a message that cannot be worked on.

They have a row like any other, opened and closed at once, with no entries and no states: there was nothing to walk.
"""

from __future__ import annotations

from collections.abc import Mapping

from graph_agent.models.decision import AgentDecision, DecisionType, OutcomeCategory
from graph_agent.models.record import DecisionRecord, RecordHeader, RecordStatus
from graph_agent.ports import AuditWriter


async def write_refused(
    audit: AuditWriter, header: RecordHeader, blobs: Mapping[str, str], outcome: OutcomeCategory, reply: str
) -> DecisionRecord:
    """Record that `header`'s message was answered with the fixed `reply`. Raises `RecordUnavailableError`."""
    context = header.context
    await audit.write_decision_log(
        decision_id=header.decision_id,
        conversation_id=context.conversation_id,
        user_id=context.user_id,
        message=context.message,
        header=header,
        blobs=blobs,
    )
    decision = AgentDecision(
        decision_type=DecisionType.RESPOND_ONLY,
        response_text=reply,
        decision_id=header.decision_id,
        outcome_category=outcome,
    )
    record = DecisionRecord(
        header=header,
        entries=[],
        status=RecordStatus.COMPLETED,
        states=[],
        iterations=0,
        decision=decision,
        ended_at=header.started_at,
        duration_ms=0,
    )
    return await audit.close_decision_log(record)

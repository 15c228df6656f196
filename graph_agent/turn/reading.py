"""The record of a server's text that a client reads beside its calls: a resource, a prompt, an error of the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graph_agent.models.authors import TextAuthor
from graph_agent.models.decision import AgentDecision, DecisionType, OutcomeCategory
from graph_agent.models.record import NO_MODEL, DecisionRecord, RecordHeader, RecordStatus, ToolInvocation
from graph_agent.models.tools import ToolResult
from graph_agent.reply.authored import by_code, name_authors


@dataclass(frozen=True, slots=True)
class Reading:
    """A text of a server that is given to a client. It taints the calls after it, as the result of a call does."""

    kind: str
    """Such as "linked resource". It has a space, so that no tool has this name, and no constitution trusts it."""
    named: Mapping[str, Any]
    """The name of the part, such as the address of a resource."""
    result: ToolResult
    """The text that was read, or the error with which the server has answered."""


def reading_record(header: RecordHeader, reading: Reading) -> DecisionRecord:
    """Return the record of a reading: one call that no model has made, without entries and states."""
    text = f"Read a {reading.kind}."
    return DecisionRecord(
        header=header,
        entries=[],
        status=RecordStatus.COMPLETED,
        states=[],
        iterations=0,
        decision=AgentDecision(
            decision_type=DecisionType.RESPOND_ONLY,
            response_text=text,
            decision_id=header.decision_id,
            outcome_category=OutcomeCategory.RESPONSE_GIVEN,
            authors=name_authors(TextAuthor.CODE, by_code(text)),
        ),
        invocations=[
            ToolInvocation(
                sequence=1,
                tool_name=reading.kind,
                parameters=dict(reading.named),
                result=reading.result.data,
                success=reading.result.success,
                error_code=reading.result.error_code,
                error_message=reading.result.error,
                content=reading.result.content,
                invoked_at=header.started_at,
            )
        ],
        ended_at=header.started_at,
        duration_ms=0,
    )


def reading_of(record: DecisionRecord) -> Reading | None:
    """Return the reading that a record is of; None for any other."""
    if record.header.model != NO_MODEL or record.states or len(record.invocations) != 1:
        return None
    (made,) = record.invocations
    return Reading(made.tool_name, made.parameters, made.tool_result)

"""The base class of audit writers: it has the two methods that take the fields of a row as keyword arguments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

from graph_agent import ports
from graph_agent.models.record import DecisionOpening, ToolInvocation


class AuditWriter(ports.AuditWriter, Protocol):
    """An audit writer; see the methods of the port. Derive from this class to inherit the two methods below."""

    async def write_decision_log(
        self,
        *,
        decision_id: str,
        conversation_id: str,
        user_id: str,
        message: str,
        intent_type: str = "LLM_PROCESSING",
        decision_type: str = "PENDING",
        outcome_category: str = "PENDING",
        duration_ms: int = 0,
    ) -> None:
        """Insert the opening row; see `write_opening`."""
        await self.write_opening(
            DecisionOpening(
                decision_id=decision_id,
                conversation_id=conversation_id,
                user_id=user_id,
                message=message,
                intent_type=intent_type,
                decision_type=decision_type,
                outcome_category=outcome_category,
                duration_ms=duration_ms,
            )
        )

    async def write_tool_invocation_log(
        self,
        *,
        decision_id: str,
        tool_name: str,
        parameters: dict[str, Any],
        result: Any,
        success: bool,
        error_code: str | None = None,
        error_message: str | None = None,
        duration_ms: int = 0,
        sequence: int = 1,
    ) -> None:
        """Store a call that was sent; see `write_tool_invocation`.

        `sequence` counts the calls of the decision from 1.
        """
        invocation = ToolInvocation(
            sequence=sequence,
            tool_name=tool_name,
            parameters=parameters,
            result=result,
            success=success,
            error_code=error_code,
            error_message=error_message,
            duration_ms=duration_ms,
            invoked_at=datetime.now(UTC),
        )
        await self.write_tool_invocation(decision_id, invocation)

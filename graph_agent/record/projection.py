"""The rows a closed record stands for. What is in the tables is projected from the record, never a second truth."""

from __future__ import annotations

from typing import Any

from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.models.record import DecisionRecord, EntryKind, ToolInvocation


def terminal_columns(record: DecisionRecord) -> dict[str, Any]:
    """The columns of `DecisionLog` that a record ends with: a projection, never a second truth."""
    decision = record.decision
    outcome = decision.outcome_category or OutcomeCategory.RESPONSE_GENERATION
    return {
        "intent_type": decision.intent.intent_type if decision.intent else None,
        "confidence": decision.intent.confidence if decision.intent else None,
        "extracted_params": decision.intent.extracted_params if decision.intent else None,
        "decision_type": decision.decision_type.value,
        "outcome_category": outcome.value,
        "category": outcome.category,
        "response_text": decision.reply,
        "ended_at": record.ended_at,
        "duration_ms": record.duration_ms,
        "status": record.status,
        "iterations": record.iterations,
        "states": record.states,
        **_usage_columns(record.usage),
    }


def decision_row(record: DecisionRecord) -> dict[str, Any]:
    """The whole row of `DecisionLog` that a record stands for."""
    header = record.header
    return {
        "decision_id": header.decision_id,
        "conversation_id": header.context.conversation_id,
        "user_id": header.context.user_id,
        "message": header.context.message,
        "created_at": header.started_at,
        "model": header.model,
        "constitution": header.constitution,
        "header": canonical_json(header.to_json()),
        "record": canonical_json(record.to_json()),
        **terminal_columns(record),
    }


def invocation_rows(record: DecisionRecord) -> list[dict[str, Any]]:
    """The rows of `ToolInvocationLog` that a record stands for."""
    return [invocation_row(record.header.decision_id, invocation) for invocation in record.invocations]


def invocation_row(decision_id: str, invocation: ToolInvocation) -> dict[str, Any]:
    """One row of `ToolInvocationLog`."""
    return {"decision_id": decision_id, **dict(invocation)}


def call_rows(record: DecisionRecord) -> list[dict[str, Any]]:
    """The rows of `LLMCallLog` that a record stands for."""
    asked = [entry for entry in record.entries if entry.kind is EntryKind.MODEL]
    return [
        call_row(record.header.decision_id, sequence, LLMResponse.model_validate(entry.result), entry.request, entry.ms)
        for sequence, entry in enumerate(asked, start=1)
    ]


def call_row(
    decision_id: str, sequence: int, response: LLMResponse, request_digest: str | None, duration_ms: int
) -> dict[str, Any]:
    """One row of `LLMCallLog`."""
    return {
        "decision_id": decision_id,
        "sequence": sequence,
        "response": response.to_json(),
        "finish_reason": response.finish_reason,
        "error": response.error,
        "duration_ms": duration_ms,
        "request_digest": request_digest,
        **_usage_columns(response.usage),
    }


def _usage_columns(usage: TokenUsage | None) -> dict[str, int | None]:
    if usage is None:
        return dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"))
    return dict(usage)

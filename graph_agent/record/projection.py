"""The rows that are projected from a record: the record is the source, the tables are copies for queries."""

from __future__ import annotations

from typing import Any

from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.models.record import DecisionRecord, EntryKind, LLMCall, ToolInvocation


def terminal_columns(record: DecisionRecord) -> dict[str, Any]:
    """Return the columns of `decision_logs` that are filled in when a record is closed."""
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
        "response_model": response_model(record),
        "iterations": record.iterations,
        "states": record.states,
        **_usage_columns(record.usage),
    }


def decision_row(record: DecisionRecord) -> dict[str, Any]:
    """Return the complete row of `decision_logs` for a closed record."""
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


def response_model(record: DecisionRecord) -> str | None:
    """Return the model that answered last in this turn; None if none of them named itself."""
    results = [entry.result for entry in reversed(record.entries) if entry.kind is EntryKind.MODEL]
    # Not validated as an LLMResponse: closing a turn would validate every response twice.
    names = [result.get("response_model") for result in results if isinstance(result, dict)]
    return next((name for name in names if isinstance(name, str)), None)


def invocation_rows(record: DecisionRecord) -> list[dict[str, Any]]:
    """Return the rows of `tool_invocation_logs` for a closed record."""
    return [invocation_row(record.header.decision_id, invocation) for invocation in record.invocations]


def invocation_row(decision_id: str, invocation: ToolInvocation) -> dict[str, Any]:
    """Return one row of `tool_invocation_logs`."""
    return {"decision_id": decision_id, **dict(invocation)}


def call_rows(record: DecisionRecord) -> list[dict[str, Any]]:
    """Return the rows of `llm_call_logs` for a closed record."""
    model_entries = [entry for entry in record.entries if entry.kind is EntryKind.MODEL]
    return [
        call_row(
            record.header.decision_id,
            LLMCall(
                sequence=sequence,
                response=LLMResponse.model_validate(entry.result),
                request_digest=entry.request,
                duration_ms=entry.ms,
            ),
        )
        for sequence, entry in enumerate(model_entries, start=1)
    ]


def call_row(decision_id: str, call: LLMCall) -> dict[str, Any]:
    """Return one row of `llm_call_logs`."""
    response = call.response
    return {
        "decision_id": decision_id,
        "sequence": call.sequence,
        "response": response.to_json(),
        "finish_reason": response.finish_reason,
        "error": response.error_code,
        "response_model": response.response_model,
        "duration_ms": call.duration_ms,
        "request_digest": call.request_digest,
        **_usage_columns(response.usage),
    }


def _usage_columns(usage: TokenUsage | None) -> dict[str, int | None]:
    if usage is None:
        return dict.fromkeys(TokenUsage.model_fields)
    # Rows that are older than this column have NULL in it. A 0 here would make `log verify` report them as changed.
    return {**dict(usage), "cached_tokens": usage.cached_tokens or None}

"""The rows that are projected from a record: the record is the source, the tables are copies for queries.

A record is taken as its JSON (`DecisionRecord.to_json`), which a closing turn has anyway, and which a verification reads faster
than a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import LLMErrorCode, TokenUsage
from graph_agent.models.record import EntryKind
from graph_agent.record.search import words_of

Json = Mapping[str, Any]


def terminal_columns(record: Json) -> dict[str, Any]:
    """Return the columns of `decision_logs` that are filled in when a record is closed."""
    decision = record["decision"]
    intent = decision["intent"] or {}
    outcome = OutcomeCategory(decision["outcome_category"] or OutcomeCategory.RESPONSE_GENERATION)
    return {
        "intent_type": intent.get("intent_type"),
        "confidence": intent.get("confidence"),
        "extracted_params": intent.get("extracted_params"),
        "decision_type": decision["decision_type"],
        "outcome_category": outcome.value,
        "category": outcome.category,
        "response_text": decision["response_text"] or decision["clarification_question"] or "",
        "ended_at": datetime.fromisoformat(record["ended_at"]),
        "duration_ms": record["duration_ms"],
        "status": record["status"],
        "response_model": response_model([entry["result"] for entry in _model_entries(record)]),
        "iterations": record["iterations"],
        "states": record["states"],
        "words": search_words(record),
        "question": question_of(record),
        **_usage_columns(record["usage"]),
    }


def search_words(record: Json) -> str:
    """Return the words of the message, the reply, and the tools and arguments of all calls."""
    decision = record["decision"]
    said = record["header"]["context"]["message"], decision["response_text"], decision["clarification_question"]
    return words_of(*said, *((call["tool_name"], call["parameters"]) for call in record["invocations"]))


def question_of(record: Json) -> str | None:
    """Return the id of the question that a decision answers, or else of the one that it asks; None if it does neither."""
    decision = record["decision"]
    asked = decision.get("pending_action") or (decision.get("approval") or {}).get("action") or {}
    return answered_in(record) or asked.get("id")


def answered_in(record: Json) -> str | None:
    """Return the id of the question that a decision answers, as `DecisionRecord.answered` does; None if it answers none."""
    context = record["header"]["context"]
    if closed := context.get("approval"):
        return str(closed["request"]["action"]["id"])
    used = any(entry["kind"] == EntryKind.CONSUME and entry["result"] for entry in record["entries"])
    pending = context.get("pending_confirmation")
    return str(pending["id"]) if pending and used and "INVOKE_LLM" not in record["states"][1:2] else None


def decision_row(record: Json) -> dict[str, Any]:
    """Return the complete row of `decision_logs` for a closed record."""
    return {**decision_columns(record), "record": canonical_json(record)}


def decision_columns(record: Json) -> dict[str, Any]:
    """Return the columns of `decision_logs` for a closed record, without the record itself."""
    return {**opening_columns(record), **terminal_columns(record)}


def opening_columns(record: Json) -> dict[str, Any]:
    """Return the columns of `decision_logs` that the opening row of a record has already."""
    header = record["header"]
    context = header["context"]
    return {
        "decision_id": header["decision_id"],
        "conversation_id": context["conversation_id"],
        "user_id": context["user_id"],
        "message": context["message"],
        "created_at": datetime.fromisoformat(header["started_at"]),
        "model": header["model"],
        "constitution": header["constitution"],
        "header": canonical_json(header),
    }


def response_model(responses: Sequence[Any]) -> str | None:
    """Return the model that answered last in this turn; None if none of them named itself."""
    names = [result.get("response_model") for result in reversed(responses) if isinstance(result, dict)]
    return next((name for name in names if isinstance(name, str)), None)


def invocation_rows(record: Json) -> list[dict[str, Any]]:
    """Return the rows of `tool_invocation_logs` for a closed record."""
    return [invocation_row(record["header"]["decision_id"], invocation) for invocation in record["invocations"]]


def invocation_row(decision_id: str, invocation: Json) -> dict[str, Any]:
    """Return one row of `tool_invocation_logs`. The parts of an answer are in the record only."""
    columns = {name: value for name, value in invocation.items() if name != "content"}
    invoked_at = datetime.fromisoformat(invocation["invoked_at"])
    return {
        **columns,
        "decision_id": decision_id,
        "invoked_at": invoked_at,
        "shadow": invocation.get("shadow"),
        "gate": invocation.get("gate"),
    }


def model_calls(entries: Sequence[Json]) -> list[dict[str, Any]]:
    """Return the calls of the model among `entries`: no table has them, the record has every answer."""
    answered = [entry for entry in entries if entry["kind"] == EntryKind.MODEL]
    return [_model_call(sequence, entry) for sequence, entry in enumerate(answered, start=1)]


def _model_call(sequence: int, entry: Json) -> dict[str, Any]:
    response = entry["result"]
    return {
        "sequence": sequence,
        "response": response,
        "finish_reason": response["finish_reason"],
        "error": None if response["error"] is None else LLMErrorCode.of(response["error"]),
        "response_model": response.get("response_model"),
        "duration_ms": entry["ms"],
        "request_digest": entry["request"],
        **_usage_columns(response["usage"]),
    }


def _model_entries(record: Json) -> list[Any]:
    return [entry for entry in record["entries"] if entry["kind"] == EntryKind.MODEL]


def _usage_columns(usage: Json | None) -> dict[str, int | None]:
    # Rows that are older than the column `cached_tokens` have NULL in it. A 0 would make `log verify` report them as changed.
    return {name: (usage or {}).get(name) for name in TokenUsage.model_fields}

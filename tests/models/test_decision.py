"""Validation of contexts, decisions and engine settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import (
    AgentDecision,
    DecisionContext,
    DecisionType,
    IntentType,
    Message,
    OutcomeCategory,
    PendingAction,
    UserIntent,
)
from graph_agent.models.tools import ToolCall, ToolResult

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
CONTEXT = {"user_id": "ann", "message": "hi", "conversation_id": "c1"}
PENDING = {"id": "p1", "tool_name": "delete_task", "arguments": {}, "description": "d", "created_at": NOW}


def test_a_message_has_between_one_and_four_thousand_characters() -> None:
    for length in (1, 4000):
        assert len(DecisionContext.model_validate({**CONTEXT, "message": "x" * length}).message) == length
    for length in (0, 4001):
        with pytest.raises(ValidationError):
            DecisionContext.model_validate({**CONTEXT, "message": "x" * length})


@pytest.mark.parametrize(
    "problem",
    [
        {"message": "   \n"},
        {"message": "a\x00b"},
        {"message": "a\ud800b"},
        {"user_id": ""},
        {"user_id": " "},
        {"user_id": "a\x00"},
        {"user_id": "x" * 256},
        {"conversation_id": ""},
        {"tools": []},
        {"message": 7},
    ],
)
def test_an_invalid_context_is_rejected(problem: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DecisionContext.model_validate({**CONTEXT, **problem})


def test_the_last_twenty_messages_are_kept() -> None:
    history = [Message(role="user", content=str(n), timestamp=NOW) for n in range(25)]
    kept = DecisionContext.model_validate({**CONTEXT, "message_history": history}).message_history
    assert [message.content for message in kept] == [str(n) for n in range(5, 25)]


def test_times_are_aware_and_in_utc() -> None:
    elsewhere = NOW.astimezone(tz=__import__("datetime").timezone(timedelta(hours=5)))
    timestamp = Message(role="user", content="x", timestamp=elsewhere).timestamp
    assert timestamp is not None
    assert timestamp.utcoffset() == timedelta(0)
    with pytest.raises(ValidationError):
        Message(role="user", content="x", timestamp=NOW.replace(tzinfo=None))
    with pytest.raises(ValidationError, match="a time that UTC does not have"):
        Message.model_validate({"role": "user", "content": "x", "timestamp": "9999-12-31T23:59:59-12:00"})


def test_a_pending_action_expires_after_five_minutes_by_default() -> None:
    assert PendingAction.model_validate(PENDING).expires_at == NOW + timedelta(minutes=5)
    with pytest.raises(ValidationError):
        PendingAction.model_validate({**PENDING, "expires_at": NOW})
    with pytest.raises(ValidationError):
        PendingAction.model_validate({**PENDING, "id": ""})


@pytest.mark.parametrize(
    "fields",
    [
        {"decision_type": "RESPOND_ONLY", "response_text": "hi"},
        {"decision_type": "ASK_CLARIFICATION", "clarification_question": "which?"},
        {"decision_type": "REQUEST_CONFIRMATION", "response_text": "sure?", "pending_action": PENDING},
        {"decision_type": "INVOKE_TOOL", "response_text": "done", "tool_calls": [{"tool_name": "a", "sequence": 1}]},
    ],
)
def test_a_decision_has_exactly_one_text(fields: dict[str, Any]) -> None:
    decision = AgentDecision.model_validate(fields)
    assert decision.reply == (fields.get("response_text") or fields.get("clarification_question"))
    assert AgentDecision.model_validate(decision.to_json()) == decision


@pytest.mark.parametrize(
    "fields",
    [
        {"decision_type": "RESPOND_ONLY"},
        {"decision_type": "RESPOND_ONLY", "response_text": "a", "clarification_question": "b"},
        {"decision_type": "RESPOND_ONLY", "clarification_question": "which?"},
        {"decision_type": "ASK_CLARIFICATION", "response_text": "which?"},
        {"decision_type": "REQUEST_CONFIRMATION", "response_text": "sure?"},
        {"decision_type": "RESPOND_ONLY", "response_text": "a", "pending_action": PENDING},
        {"decision_type": "INVOKE_TOOL", "response_text": "a", "tool_calls": []},
        {"decision_type": "REFUSE", "response_text": "a"},
        {"decision_type": "RESPOND_ONLY", "response_text": "a", "outcome_category": "SUCCESS"},
        {"decision_type": "RESPOND_ONLY", "response_text": "a", "more": 1},
    ],
)
def test_a_decision_with_two_texts_or_none_is_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentDecision.model_validate(fields)


def test_the_taxonomies_are_complete() -> None:
    assert {str(kind) for kind in DecisionType} == {
        "RESPOND_ONLY", "INVOKE_TOOL", "ASK_CLARIFICATION", "REQUEST_CONFIRMATION", "EXECUTE_PENDING", "CANCEL_PENDING",
    }  # fmt: skip
    assert {str(kind) for kind in IntentType} == {
        "CREATE_TASK", "LIST_TASKS", "COMPLETE_TASK", "UPDATE_TASK", "DELETE_TASK", "MULTI_INTENT", "GENERAL_CHAT",
        "AMBIGUOUS", "CONFIRM_YES", "CONFIRM_NO",
    }  # fmt: skip
    assert {str(kind) for kind in OutcomeCategory} == {
        "SUCCESS:TASK_COMPLETED", "SUCCESS:RESPONSE_GIVEN", "SUCCESS:CLARIFICATION_ANSWERED",
        "ERROR:USER_INPUT", "ERROR:INTENT_CLASSIFICATION", "ERROR:TOOL_INVOCATION", "ERROR:RESPONSE_GENERATION",
        "REFUSAL:OUT_OF_SCOPE", "REFUSAL:MISSING_PERMISSION", "REFUSAL:RATE_LIMITED",
        "AMBIGUITY:UNCLEAR_INTENT", "AMBIGUITY:MULTIPLE_MATCHES", "AMBIGUITY:MISSING_CONTEXT",
    }  # fmt: skip
    assert OutcomeCategory.RATE_LIMITED.category == "REFUSAL"


@pytest.mark.parametrize(("confidence", "fits"), [(0, True), (1, True), (-0.1, False), (1.1, False)])
def test_confidence_is_between_zero_and_one(confidence: float, fits: bool) -> None:
    fields = {"intent_type": "GENERAL_CHAT", "confidence": confidence}
    if fits:
        assert UserIntent.model_validate(fields).confidence == confidence
    else:
        with pytest.raises(ValidationError):
            UserIntent.model_validate(fields)


def test_calls_are_counted_from_one() -> None:
    assert ToolCall(tool_name="a", sequence=1).parameters == {}
    with pytest.raises(ValidationError):
        ToolCall(tool_name="a", sequence=0)


@pytest.mark.parametrize(
    ("code", "unknown"),
    [("TIMEOUT_ERROR", True), ("UNKNOWN_ERROR", True), ("NOT_FOUND", False), ("DATABASE_ERROR", False), (None, False)],
)
def test_a_timeout_is_an_unknown_outcome(code: str | None, unknown: bool) -> None:
    assert ToolResult.model_validate({"success": False, "error_code": code}).unknown is unknown


@pytest.mark.parametrize(
    "problem",
    [
        {"max_iterations": 0},
        {"max_iterations": 51},
        {"timeout_seconds": 0},
        {"include_history_messages": -1},
        {"temperature": 3},
    ],
)
def test_engine_settings_out_of_range_are_rejected(problem: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentEngineConfig.model_validate(problem)


def test_engine_settings_have_the_documented_defaults() -> None:
    config = AgentEngineConfig()
    assert (config.max_iterations, config.include_history_messages, config.temperature, config.timeout_seconds) == (
        5,
        10,
        0.0,
        30,
    )
    assert (config.max_calls_per_turn, AgentEngineConfig(max_iterations=15).max_calls_per_turn) == (10, 30)

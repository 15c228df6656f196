"""What goes into a turn and what comes out of it."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.canonical import canonical_json
from graph_agent.models.tools import ToolCall

MAX_MESSAGE_LENGTH = 4000
MAX_HISTORY_MESSAGES = 20
CONFIRMATION_LIFETIME = timedelta(minutes=5)


class DecisionType(StrEnum):
    RESPOND_ONLY = "RESPOND_ONLY"
    INVOKE_TOOL = "INVOKE_TOOL"
    ASK_CLARIFICATION = "ASK_CLARIFICATION"
    REQUEST_CONFIRMATION = "REQUEST_CONFIRMATION"
    EXECUTE_PENDING = "EXECUTE_PENDING"
    CANCEL_PENDING = "CANCEL_PENDING"


class OutcomeCategory(StrEnum):
    """`CATEGORY:SUBCATEGORY`; the whole taxonomy."""

    TASK_COMPLETED = "SUCCESS:TASK_COMPLETED"
    RESPONSE_GIVEN = "SUCCESS:RESPONSE_GIVEN"
    CLARIFICATION_ANSWERED = "SUCCESS:CLARIFICATION_ANSWERED"
    USER_INPUT = "ERROR:USER_INPUT"
    INTENT_CLASSIFICATION = "ERROR:INTENT_CLASSIFICATION"
    TOOL_INVOCATION = "ERROR:TOOL_INVOCATION"
    RESPONSE_GENERATION = "ERROR:RESPONSE_GENERATION"
    OUT_OF_SCOPE = "REFUSAL:OUT_OF_SCOPE"
    MISSING_PERMISSION = "REFUSAL:MISSING_PERMISSION"
    RATE_LIMITED = "REFUSAL:RATE_LIMITED"
    UNCLEAR_INTENT = "AMBIGUITY:UNCLEAR_INTENT"
    MULTIPLE_MATCHES = "AMBIGUITY:MULTIPLE_MATCHES"
    MISSING_CONTEXT = "AMBIGUITY:MISSING_CONTEXT"

    @property
    def category(self) -> str:
        """The part before the colon: SUCCESS, ERROR, REFUSAL or AMBIGUITY."""
        return self.value.partition(":")[0]


class IntentType(StrEnum):
    CREATE_TASK = "CREATE_TASK"
    LIST_TASKS = "LIST_TASKS"
    COMPLETE_TASK = "COMPLETE_TASK"
    UPDATE_TASK = "UPDATE_TASK"
    DELETE_TASK = "DELETE_TASK"
    MULTI_INTENT = "MULTI_INTENT"
    GENERAL_CHAT = "GENERAL_CHAT"
    AMBIGUOUS = "AMBIGUOUS"
    CONFIRM_YES = "CONFIRM_YES"
    CONFIRM_NO = "CONFIRM_NO"


class UserIntent(Frozen):
    """What the user wanted, read from what the model decided."""

    intent_type: IntentType
    confidence: float = Field(ge=0.0, le=1.0)
    extracted_params: dict[str, Any] = Field(default_factory=dict)


class Message(Frozen):
    """One message of a conversation as people see it."""

    role: Literal["user", "assistant"]
    content: str
    timestamp: UtcDatetime

    @field_validator("content")
    @classmethod
    def _storable(cls, value: str) -> str:
        if reason := unstorable(value):
            raise ValueError(reason)
        return value


class PendingAction(Frozen):
    """A call that waits for the user's own yes: signed, bound to user and conversation, five minutes, single use.

    `id` is also the operation key under which the call will run.
    """

    id: str = Field(min_length=1)
    tool_name: str
    arguments: dict[str, Any]
    description: str
    created_at: UtcDatetime
    expires_at: UtcDatetime
    signature: str = ""

    @model_validator(mode="before")
    @classmethod
    def _expires_in_five_minutes(cls, data: Any) -> Any:
        if isinstance(data, dict) and "expires_at" not in data and "created_at" in data:
            created = data["created_at"]
            if hasattr(created, "tzinfo"):
                return {**data, "expires_at": created + CONFIRMATION_LIFETIME}
        return data

    @model_validator(mode="after")
    def _lives_forward(self) -> PendingAction:
        if self.expires_at <= self.created_at:
            raise ValueError("expires_at must lie after created_at")
        return self

    @model_validator(mode="after")
    def _can_be_signed(self) -> PendingAction:
        try:
            canonical_json([self.id, self.tool_name, self.arguments, self.description]).encode()
        except (ValueError, TypeError, RecursionError):
            raise ValueError("must be plain JSON") from None
        return self


def unstorable(text: str) -> str | None:
    """Why `text` cannot be kept and sent on: NUL breaks PostgreSQL, a lone surrogate is not Unicode text. None if it can."""
    if "\x00" in text:
        return "contains a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate"
    return None


def content_problem(message: str) -> str | None:
    """Why a user's message gets no turn, as a sentence for its author; None if it gets one."""
    if not message.strip():
        return "The message is empty."
    if len(message) > MAX_MESSAGE_LENGTH:
        return f"The message is longer than {MAX_MESSAGE_LENGTH} characters."
    return None if unstorable(message) is None else "The message contains characters that are not valid text."


class DecisionContext(Frozen):
    """Everything a turn may know; the runtime keeps no session. Which tools there are comes from the policy."""

    user_id: str = Field(min_length=1, max_length=255)
    message: str = Field(min_length=1, max_length=MAX_MESSAGE_LENGTH)
    conversation_id: str = Field(min_length=1, max_length=255)
    message_history: list[Message] = Field(default_factory=list)
    pending_confirmation: PendingAction | None = None

    @field_validator("user_id", "conversation_id", "message")
    @classmethod
    def _storable(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        if reason := unstorable(value):
            raise ValueError(reason)
        return value

    @field_validator("message_history")
    @classmethod
    def _last_ones_are_kept(cls, value: list[Message]) -> list[Message]:
        return value[-MAX_HISTORY_MESSAGES:]


class AgentDecision(Frozen):
    """The one result of a turn.

    A question stands only in `clarification_question`; a confirmation's question stands in `response_text`. `effects` are
    receipts composed by code from committed tool results, to be shown beside the model's words.
    """

    decision_type: DecisionType
    tool_calls: list[ToolCall] | None = None
    response_text: str | None = None
    clarification_question: str | None = None
    pending_action: PendingAction | None = None
    decision_id: str | None = None
    intent: UserIntent | None = None
    outcome_category: OutcomeCategory | None = None
    effects: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _says_one_thing(self) -> AgentDecision:
        if (self.response_text is None) == (self.clarification_question is None):
            raise ValueError("exactly one of response_text and clarification_question is set")
        if (self.clarification_question is not None) != (self.decision_type is DecisionType.ASK_CLARIFICATION):
            raise ValueError("a clarification question goes with ASK_CLARIFICATION")
        if (self.pending_action is not None) != (self.decision_type is DecisionType.REQUEST_CONFIRMATION):
            raise ValueError("a pending action goes with REQUEST_CONFIRMATION")
        if self.tool_calls is not None and not self.tool_calls:
            raise ValueError("no calls are told as None")
        return self

    @property
    def reply(self) -> str:
        """What the user reads."""
        return self.response_text or self.clarification_question or ""

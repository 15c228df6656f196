"""What can go wrong, in one tree.

    GraphAgentError
    ├── ConfigurationError            refuses to start: one clear sentence
    │   └── ConstitutionError         with the line number
    ├── LLMError                      a model call failed; `code` says how
    │   ├── RateLimitError            `retry_after` in seconds, where the provider said so
    │   ├── LLMTimeoutError           also a builtin TimeoutError
    │   └── InvalidResponseError      the provider answered something that cannot be used
    ├── ToolNotFoundError             a declaration was asked for that nobody has
    ├── UndeclaredOutcomeError        a node named an outcome that the topology does not have
    ├── RecordError                   the record cannot be written or does not fit
    │   ├── RecordUnavailableError    the log database did not take the row
    │   ├── RecordMismatchError       a replay asked for something else than was recorded
    │   └── TurnTakenOverError        another process finishes this turn, or it is closed already
    └── ServiceError                  `code` is one of ServiceErrorCode; its text may be shown

Expected failure is data (`ToolResult`, `LLMResponse.finish_reason`); these are the surprises. The text of a foreign exception
never travels in one of them: it is chained with `from`, for the log.
"""

from __future__ import annotations

from enum import StrEnum


class ToolErrorCode(StrEnum):
    """Why a tool call did not succeed; stored with every invocation."""

    VALIDATION_ERROR = "VALIDATION_ERROR"
    INTENT_ERROR = "INTENT_ERROR"
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    TOOL_EXECUTION_ERROR = "TOOL_EXECUTION_ERROR"
    DATABASE_ERROR = "DATABASE_ERROR"
    TIMEOUT_ERROR = "TIMEOUT_ERROR"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    NOT_FOUND = "NOT_FOUND"
    ACCESS_DENIED = "ACCESS_DENIED"


class ServiceErrorCode(StrEnum):
    """What the services and the API answer instead of a result."""

    STORAGE_ERROR = "STORAGE_ERROR"
    DECISION_NOT_FOUND = "DECISION_NOT_FOUND"
    BASELINE_NOT_FOUND = "BASELINE_NOT_FOUND"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"
    DUPLICATE_NAME = "DUPLICATE_NAME"
    INVALID_FORMAT = "INVALID_FORMAT"
    QUERY_TIMEOUT = "QUERY_TIMEOUT"
    INVALID_ID_FORMAT = "INVALID_ID_FORMAT"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    ACCESS_DENIED = "ACCESS_DENIED"
    CONVERSATION_NOT_FOUND = "CONVERSATION_NOT_FOUND"
    CONVERSATION_BUSY = "CONVERSATION_BUSY"
    REQUEST_IN_PROGRESS = "REQUEST_IN_PROGRESS"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    IDEMPOTENCY_KEY_REUSED = "IDEMPOTENCY_KEY_REUSED"
    RATE_LIMITED = "RATE_LIMITED"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"


class GraphAgentError(Exception):
    """The root: everything this package raises on purpose."""


class ConfigurationError(GraphAgentError):
    """The runtime cannot start with what it was given."""


class ConstitutionError(ConfigurationError):
    """The constitution breaks its grammar; `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(f"constitution, line {line}: {message}" if line else f"constitution: {message}")


class LLMError(GraphAgentError):
    """A model call failed. `code` is one of `LLMErrorCode`'s values; `retry_after` is in seconds."""

    default_code = "UNAVAILABLE"

    def __init__(self, message: str = "", code: str | None = None, retry_after: float | None = None) -> None:
        self.message = message or "the model call failed"
        self.code = code or self.default_code
        self.retry_after = retry_after
        super().__init__(self.message)


class RateLimitError(LLMError):
    """The provider refused for quota."""

    default_code = "RATE_LIMITED"


class LLMTimeoutError(LLMError, TimeoutError):
    """No complete answer in time."""

    default_code = "TIMEOUT"


class InvalidResponseError(LLMError):
    """An answer that is empty, truncated, malformed or of the wrong shape."""

    default_code = "INVALID_RESPONSE"


class ToolNotFoundError(GraphAgentError):
    """No declaration under this name."""


class UndeclaredOutcomeError(GraphAgentError):
    """A node named an outcome that `graph/topology.py` does not list for it."""


class RecordError(GraphAgentError):
    """The record of a decision."""


class RecordUnavailableError(RecordError):
    """The log database did not take a row that must stand before the turn may go on."""


class RecordMismatchError(RecordError):
    """The graph asked a port for something else than the record holds at this place."""


class TurnTakenOverError(RecordError):
    """This run of the turn may no longer act or write: another one finishes it, or has."""


class ServiceError(GraphAgentError):
    """A refusal with a code; `message` is written for the caller."""

    def __init__(self, code: ServiceErrorCode, message: str, *, retry_after: float | None = None) -> None:
        self.code = code
        self.message = message
        self.retry_after = retry_after
        super().__init__(f"{code}: {message}")

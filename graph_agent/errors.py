"""All exceptions of the package, in one tree.

    GraphAgentError
    ├── ConfigurationError            the settings or files are not valid: one sentence
    │   ├── ConstitutionError         with the line number
    │   └── ToolDefinitionError       a server's definition of a tool cannot be used; `tool` is its name
    ├── LLMError                      a model call failed; `code` says how
    │   ├── RateLimitError            `retry_after` in seconds, if the provider named a time
    │   ├── LLMTimeoutError           also a builtin TimeoutError; TimeoutError in the documents
    │   ├── InvalidResponseError      the provider's response cannot be used
    │   └── ToolNotFoundError         there is no declaration of this name
    ├── UndeclaredOutcomeError        a node returned an outcome that the topology does not have
    ├── RecordError                   the record cannot be written or does not fit
    │   ├── RecordUnavailableError    the log database cannot be read or written
    │   ├── RecordMismatchError       a replay requests something else than the record has
    │   └── TurnTakenOverError        another process finishes this turn, or it is closed already
    └── ServiceError                  `code` is one of ServiceErrorCode; its text may be shown

An expected failure is data (`ToolResult`, `LLMResponse.finish_reason`); exceptions are for the unexpected. They never contain
the text of a third-party exception, which is chained with `from` for the log.
"""

from __future__ import annotations

import builtins
from enum import StrEnum


class ToolErrorCode(StrEnum):
    """Why a tool call did not succeed; stored with every invocation."""

    VALIDATION_ERROR = "VALIDATION_ERROR"
    INTENT_ERROR = "INTENT_ERROR"
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    TOOL_UNAVAILABLE = "TOOL_UNAVAILABLE"
    """The tool is granted, but its server does not answer, or serves another definition of it. Nothing was done."""
    TOOL_EXECUTION_ERROR = "TOOL_EXECUTION_ERROR"
    TOOL_REPORTED_FAILURE = "TOOL_REPORTED_FAILURE"
    """A change failed on a server without a ledger: what was done before the failure is not known."""
    DATABASE_ERROR = "DATABASE_ERROR"
    TIMEOUT_ERROR = "TIMEOUT_ERROR"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    NOT_FOUND = "NOT_FOUND"
    ACCESS_DENIED = "ACCESS_DENIED"


class ServiceErrorCode(StrEnum):
    """The error codes of the services and the API."""

    STORAGE_ERROR = "STORAGE_ERROR"
    DECISION_NOT_FOUND = "DECISION_NOT_FOUND"
    BASELINE_NOT_FOUND = "BASELINE_NOT_FOUND"
    TASK_NOT_FOUND = "TASK_NOT_FOUND"
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
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"


class GraphAgentError(Exception):
    """The base class of all exceptions that this package raises."""


class ConfigurationError(GraphAgentError):
    """The runtime cannot start with this configuration."""


class ConstitutionError(ConfigurationError):
    """The constitution violates its grammar; `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(f"constitution, line {line}: {message}" if line else f"constitution: {message}")


class ToolDefinitionError(ConfigurationError):
    """The definition of the tool called `tool` cannot be used."""

    def __init__(self, tool: str, message: str) -> None:
        self.tool = tool
        super().__init__(message)


class LLMError(GraphAgentError):
    """A model call failed. `code` is one of `LLMErrorCode`'s values; `retry_after` is in seconds.

    A subclass with a code of its own is handled by its class, whatever `code` it was raised with.
    """

    default_code = "UNAVAILABLE"

    def __init__(self, message: str = "", code: str | None = None, retry_after: float | None = None) -> None:
        self.message = message or "the model call failed"
        self.code = code or self.default_code
        self.retry_after = retry_after
        super().__init__(self.message)


class RateLimitError(LLMError):
    """The provider refused because of a quota."""

    default_code = "RATE_LIMITED"


class LLMTimeoutError(LLMError, builtins.TimeoutError):
    """No complete answer in time."""

    default_code = "TIMEOUT"


TimeoutError = LLMTimeoutError  # noqa: A001 (the adapter contract's name)


class InvalidResponseError(LLMError):
    """The response is empty, truncated, malformed or of the wrong shape."""

    default_code = "INVALID_RESPONSE"


class ToolNotFoundError(LLMError):
    """There is no declaration of this name."""

    default_code = "INVALID_RESPONSE"


class UndeclaredOutcomeError(GraphAgentError):
    """A node named an outcome that `graph/topology.py` does not list for it."""


class RecordError(GraphAgentError):
    """The record cannot be written or does not fit."""


class RecordUnavailableError(RecordError):
    """The log database did not store a row that the turn needs before it may continue."""


class RecordMismatchError(RecordError):
    """The graph made another request to a port than the record has at this position."""


class TurnTakenOverError(RecordError):
    """This run of the turn may no longer act or write: another one finishes it or has finished it."""


class ServiceError(GraphAgentError):
    """A refused request, or one whose outcome is unknown; `message` may be shown to the caller."""

    def __init__(
        self, code: ServiceErrorCode, message: str, *, retry_after: float | None = None, decision_id: str | None = None
    ) -> None:
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.decision_id = decision_id
        super().__init__(f"{code}: {message}")


def outcome_unknown(decision_id: str) -> ServiceError:
    """Return the error of a turn that has its opening row and whose end is not recorded: tools may have been called."""
    text = "The request was started and its outcome is not known yet: ask again with the same key."
    return ServiceError(ServiceErrorCode.OUTCOME_UNKNOWN, text, retry_after=1, decision_id=decision_id)

"""All exceptions of the package, in one tree.

    GraphAgentError
    ├── ConfigurationError            the settings or files are not valid: one sentence
    │   ├── ConstitutionError         with the line number
    │   └── ToolDefinitionError       a server's definition of a tool cannot be used; `tool` is its name
    │       └── ToolGrantError        the tool's line in the constitution does not fit what the server declares
    ├── LLMError                      a model call failed; `code` says how
    │   ├── RateLimitError            `retry_after` in seconds, if the provider named a time
    │   ├── LLMTimeoutError           also a builtin TimeoutError; TimeoutError in the documents
    │   ├── InvalidResponseError      the provider's response cannot be used
    │   └── ToolNotFoundError         there is no declaration of this name
    ├── ToolRefusal                   raised by a tool: it does nothing, and says why; `code` is one of REFUSAL_CODES
    ├── UndeclaredOutcomeError        a node returned an outcome that the topology does not have
    ├── RecordError                   the record cannot be written or does not fit
    │   ├── RecordUnavailableError    the database cannot be read or written
    │   ├── RecordRolledBackError     the record does not continue one that was signed before
    │   ├── RecordMismatchError       a replay requests something else than the record has
    │   ├── ConfirmationExpiredError  the time of a question was over when a yes to it was to be used up
    │   └── TurnTakenOverError        another process finishes this turn, or it is closed already
    └── ServiceError                  `code` is one of ServiceErrorCode; its text may be shown
        ├── StoppedError              an operator has stopped what was about to be done
        └── RulesReplacedError        other rules are in force than those under which something began

An expected failure is data (`ToolResult`, `LLMResponse.finish_reason`); exceptions are for the unexpected. They never contain
the text of a third-party exception, which is chained with `from` for the log, except what SQLite says of its database file.
"""

from __future__ import annotations

import builtins
from enum import StrEnum


class ToolErrorCode(StrEnum):
    """Why a tool call did not succeed; stored with every invocation."""

    VALIDATION_ERROR = "VALIDATION_ERROR"
    """The guard or the server refused the arguments or the number of calls. Nothing was done."""
    INTENT_ERROR = "INTENT_ERROR"
    """Reserved."""
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    """The constitution does not list the tool. Nothing was called."""
    TOOL_UNAVAILABLE = "TOOL_UNAVAILABLE"
    """The tool is granted, but its server does not answer, or serves another definition of it. Nothing was done."""
    TOOL_EXECUTION_ERROR = "TOOL_EXECUTION_ERROR"
    """The tool failed for certain."""
    TOOL_REFUSED = "TOOL_REFUSED"
    """The tool refused the call, and says why in its own words. Nothing was done."""
    TOOL_REPORTED_FAILURE = "TOOL_REPORTED_FAILURE"
    """A change failed on a server without a ledger: what was done before the failure is not known."""
    DATABASE_ERROR = "DATABASE_ERROR"
    """The database of the tool server failed, and the change was rolled back."""
    TIMEOUT_ERROR = "TIMEOUT_ERROR"
    """There was no answer in time. The outcome is unknown until the ledger reports it."""
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    """The answer was lost or cannot be used. The outcome is unknown until the ledger reports it."""
    NOT_FOUND = "NOT_FOUND"
    """The object does not exist, or it belongs to another user."""
    ACCESS_DENIED = "ACCESS_DENIED"
    """The call names another user than the signed-in one, the token lacks the scope for it, or a condition forbids it.

    Nothing was done.
    """


REFUSAL_CODES = frozenset(
    {ToolErrorCode.TOOL_REFUSED, ToolErrorCode.NOT_FOUND, ToolErrorCode.VALIDATION_ERROR, ToolErrorCode.ACCESS_DENIED}
)
"""The codes with which a tool may refuse a call: nothing was done, and its text says why."""


class ServiceErrorCode(StrEnum):
    """The error codes of the services and the API."""

    STORAGE_ERROR = "STORAGE_ERROR"
    """The database does not answer."""
    DECISION_NOT_FOUND = "DECISION_NOT_FOUND"
    """There is no such decision, or it belongs to another user."""
    TASK_NOT_FOUND = "TASK_NOT_FOUND"
    """There is no such task."""
    INVALID_FORMAT = "INVALID_FORMAT"
    """A file or a format is not valid."""
    QUERY_TIMEOUT = "QUERY_TIMEOUT"
    """The query took too long: narrow it down."""
    INVALID_ID_FORMAT = "INVALID_ID_FORMAT"
    """An id is not well-formed."""
    UNAUTHENTICATED = "UNAUTHENTICATED"
    """There is no valid bearer token."""
    ACCESS_DENIED = "ACCESS_DENIED"
    """The conversation belongs to another user, the caller is no auditor, or the request comes from another origin."""
    CONVERSATION_NOT_FOUND = "CONVERSATION_NOT_FOUND"
    """There is no such conversation."""
    QUESTION_NOT_FOUND = "QUESTION_NOT_FOUND"
    """There is no such question that the caller may see."""
    QUESTION_CLOSED = "QUESTION_CLOSED"
    """The question has ended; the text says how."""
    QUESTION_CONFLICT = "QUESTION_CONFLICT"
    """The caller has answered otherwise, or the answer names another digest than that of the question."""
    MANDATE_NOT_FOUND = "MANDATE_NOT_FOUND"
    """The caller has agreed to no such plan."""
    NOT_REPEATABLE = "NOT_REPEATABLE"
    """No plan does the changes of the decision again; the text says why."""
    NOT_UNDOABLE = "NOT_UNDOABLE"
    """Nothing that the decision has done can be undone now; the text says why."""
    CONVERSATION_BUSY = "CONVERSATION_BUSY"
    """Another turn of the conversation is still running."""
    REQUEST_IN_PROGRESS = "REQUEST_IN_PROGRESS"
    """The same request is still running."""
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    """The body is too large."""
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    """The body is not `application/json`."""
    VALIDATION_ERROR = "VALIDATION_ERROR"
    """The request is not valid."""
    IDEMPOTENCY_KEY_REUSED = "IDEMPOTENCY_KEY_REUSED"
    """The Idempotency-Key was used for another request."""
    RATE_LIMITED = "RATE_LIMITED"
    """The user has started too many turns: try again after `Retry-After` seconds."""
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    """The request was refused before its opening row, and nothing was called: try again later."""
    STOPPED = "STOPPED"
    """An operator has stopped the service, or what was asked of it. Nothing was done."""
    RULES_UNAVAILABLE = "RULES_UNAVAILABLE"
    """This process cannot use the rules that are in force, so it decides nothing. Nothing was done."""
    RULES_CONFLICT = "RULES_CONFLICT"
    """Other rules are in force than those that an activation expected. Nothing was activated."""
    STOP_NOT_FOUND = "STOP_NOT_FOUND"
    """There is no such stop, or it has ended already."""
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    """The turn was started and its end is not recorded yet: send the request again with the same Idempotency-Key."""


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


class ToolGrantError(ToolDefinitionError):
    """The line of a tool in the constitution does not fit what its server declares."""


class LLMError(GraphAgentError):
    """A model call failed. `code` is one of `LLMErrorCode`'s values, `cause` of `LLMErrorCause`'s; `retry_after` is in seconds.

    `overflow` has the tokens of a request and of the context that it did not fit, as far as they are known.
    A subclass with its own code is handled by its class, whatever `code` it was raised with.
    """

    default_code = "UNAVAILABLE"

    def __init__(
        self,
        message: str = "",
        code: str | None = None,
        retry_after: float | None = None,
        *,
        cause: str | None = None,
        overflow: tuple[int | None, int | None] | None = None,
    ) -> None:
        self.message = message or "the model call failed"
        self.code = code or self.default_code
        self.retry_after = retry_after
        self.cause = cause
        self.overflow = overflow
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


class ToolRefusal(GraphAgentError):  # noqa: N818 (an expected answer of a tool, not a defect)
    """Raised by a tool: nothing was changed. The model reads `sentence`, and a user who has confirmed the call does too."""

    def __init__(self, sentence: str, code: ToolErrorCode = ToolErrorCode.TOOL_REFUSED) -> None:
        """`code` is one of `REFUSAL_CODES`. Raises ValueError for another one, which would not say that nothing was done."""
        if code not in REFUSAL_CODES:
            raise ValueError(f"a refusal has one of the codes {', '.join(sorted(REFUSAL_CODES))}, unlike {code}")
        self.sentence = sentence
        self.code = code
        super().__init__(sentence)


class UndeclaredOutcomeError(GraphAgentError):
    """A node named an outcome that `graph/topology.py` does not list for it."""


class RecordError(GraphAgentError):
    """The record cannot be written or does not fit."""


class RecordUnavailableError(RecordError):
    """The database did not store a row that the turn needs before it may continue."""


class RecordRolledBackError(RecordError):
    """The record is not a continuation of one that was signed before, so nothing may be signed. The text may be shown."""


class RecordMismatchError(RecordError):
    """The graph made another request to a port than the record has at this position."""


class ConfirmationExpiredError(RecordError):
    """The time of a question was over when the yes to it was to be used up: nothing was called for it."""


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


class StoppedError(ServiceError):
    """An operator has stopped what was about to be done: it was not done."""

    def __init__(self, say: str = "") -> None:
        """`say` is what the operator lets users know."""
        text = f"{say or 'This was stopped by the operator.'} Nothing was done."
        super().__init__(ServiceErrorCode.STOPPED, text, retry_after=30)


class RulesReplacedError(ServiceError):
    """Other rules were put in force than those under which something was about to be done: it was not done."""

    def __init__(self) -> None:
        text = "The rules have changed. Nothing was done; please ask again."
        super().__init__(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=1)


def service_unavailable() -> ServiceError:
    """Return the error of a request that a database or a server cannot serve now; nothing is wrong with the request."""
    text = "The service is not available right now. Please try again later."
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=5.0)


def service_not_ready() -> ServiceError:
    """Return the error of a request that cannot be served yet, as before the tool servers are connected."""
    text = "The service is not ready. Please try again later."
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=5)


def no_closed_decision() -> ServiceError:
    """Return the error for a decision that does not exist for the caller, or whose turn has not ended."""
    return ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no such decision, or it is still open.")


def outcome_unknown(decision_id: str) -> ServiceError:
    """Return the error of a turn that has its opening row and whose end is not recorded: tools may have been called."""
    text = "The request was started and its outcome is not known yet: ask again with the same key."
    return ServiceError(ServiceErrorCode.OUTCOME_UNKNOWN, text, retry_after=1, decision_id=decision_id)

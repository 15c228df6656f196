"""Request and response bodies, as OpenAPI shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, Field
from pydantic.config import JsonDict
from pydantic.json_schema import SkipJsonSchema, models_json_schema

from graph_agent.models.base import Frozen
from graph_agent.models.decision import MAX_MESSAGE_LENGTH, AgentDecision, require_storable
from graph_agent.policy.constitution import MAX_CHARACTERS

UUID_FORMAT: JsonDict = {"format": "uuid"}
"""The format of ids. They are declared as text, because the service refuses a malformed id with its own error code."""

_REFERENCE = "#/components/schemas/{model}"

IdInPath = Annotated[str, Path(json_schema_extra=UUID_FORMAT)]
PolicyText = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS), AfterValidator(require_storable)]
"""The text of a constitution or of conditions."""


def id_in_query(description: str) -> Any:
    """Return the declaration of a query parameter that is an id."""
    return Query(json_schema_extra=UUID_FORMAT, description=description)


class Answers(Frozen):
    """The user's answer to a pending action, by its id."""

    pending_action: str = Field(
        min_length=1, max_length=255, pattern=r"^[^\x00]*$", description="The id of the pending action, without a NUL."
    )
    yes: bool = Field(description="True to go ahead, false to drop the action.")
    read: str = Field(
        default="",
        max_length=64,
        description="For an action with `by_id_only`: its `whole_digest`, if the client has shown the whole action.",
    )


class Shown(Frozen):
    """The question that the client shows beside the field in which the message was typed."""

    pending_action: str | None = Field(min_length=1, max_length=255, description="The id of the pending action, or null.")


_CONVERSATION = Field(
    default=None,
    json_schema_extra=UUID_FORMAT,
    description="The message's conversation; without it, the conversation of the pending action in `answers`, or a new one.",
)


_CONTENT = Field(
    min_length=1,
    max_length=MAX_MESSAGE_LENGTH,
    pattern=r"^[^\x00]*[^\x00\s][^\x00]*$",
    description="The user's words: text that is neither blank nor contains a NUL.",
)


class ChatRequest(Frozen):
    """One message of the user. With `answers`, the text is stored and shown, but not read."""

    content: str = _CONTENT
    conversation_id: str | None = _CONVERSATION
    answers: Answers | SkipJsonSchema[None] = None
    shown: Shown | SkipJsonSchema[None] = Field(
        default=None,
        description="A typed yes or no answers only this question. Without it, it counts only if no other may be meant.",
    )


class DryRunRequest(Frozen):
    """A message whose calls are judged and change nothing: the reply says what would be done."""

    content: str = _CONTENT
    conversation_id: str | None = _CONVERSATION
    dry_run: bool


class AnswerRequest(Frozen):
    """An answer to a pending action, without a text."""

    conversation_id: str | None = _CONVERSATION
    answers: Answers


def json_body(*models: type[Frozen]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads its body itself: one of `models`, which `add_schemas` declares."""
    references = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in models]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": {"anyOf": references}}}}}


def add_schemas(document: dict[str, Any], models: Iterable[type[Frozen]]) -> dict[str, Any]:
    """Declare `models` in an OpenAPI document, so that a generated client gets classes of their names."""
    _, schema = models_json_schema([(model, "validation") for model in models], ref_template=_REFERENCE)
    document["components"]["schemas"].update(schema["$defs"])
    return document


class ChatReply(Frozen):
    """The answer to a message; `message_id` is the assistant's message."""

    conversation_id: str
    message_id: str
    decision_id: str
    reply: str
    decision: AgentDecision
    disclosure: str | SkipJsonSchema[None] = Field(
        default=None, description="With the first answer of a conversation: the line that says that one talks to an AI system."
    )


class ErrorBody(Frozen):
    code: str
    message: str
    decision_id: str | SkipJsonSchema[None] = Field(
        default=None, description="The decision of a turn whose outcome is unknown (OUTCOME_UNKNOWN)."
    )


class ErrorEnvelope(Frozen):
    """The body of every error."""

    error: ErrorBody


class Health(Frozen):
    status: str
    clock_skew_seconds: float | None = None
    """For `ready`: how far the host's clock is ahead of the database's."""


_DESCRIPTIONS = {
    400: "An id is not well-formed.",
    401: "No valid bearer token.",
    403: "The conversation belongs to another user, or the Host header names another machine.",
    404: "It does not exist, or it belongs to another user.",
    409: "A turn of the conversation, or the same request, is still running.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "The request is not valid, or its Idempotency-Key was used for another one.",
    429: "Too many turns; try again after Retry-After seconds.",
    500: "An unexpected error.",
    503: "Not available; no tool was called. See Retry-After.",
    504: "The turn was started and its outcome is unknown: send the request again with the same Idempotency-Key.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that may answer with these statuses, and with a 500."""
    return {status: {"model": ErrorEnvelope, "description": _DESCRIPTIONS[status]} for status in (*statuses, 500)}

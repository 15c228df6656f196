"""The bodies of the API, as OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from pydantic import Field
from pydantic.config import JsonDict

from graph_agent.models.base import Frozen
from graph_agent.models.decision import MAX_MESSAGE_LENGTH, AgentDecision

UUID_FORMAT: JsonDict = {"format": "uuid"}
"""For ids, which are text here: what is no UUID gets a refusal of our own, not the framework's."""

IdInPath = Annotated[str, Path(json_schema_extra=UUID_FORMAT)]


class ChatRequest(Frozen):
    """One message of the user."""

    content: str = Field(
        min_length=1,
        max_length=MAX_MESSAGE_LENGTH,
        pattern=r"^[^\x00]*[^\x00\s][^\x00]*$",
        description="What the user says: text that is neither blank nor holds a NUL.",
    )
    conversation_id: str | None = Field(
        default=None,
        json_schema_extra=UUID_FORMAT,
        description="Where the message belongs; without it a new conversation begins.",
    )


class ChatReply(Frozen):
    """The answer. `decision` says what was decided and done; `message_id` is the assistant's message."""

    conversation_id: str
    message_id: str
    decision_id: str
    reply: str
    decision: AgentDecision


class ErrorBody(Frozen):
    code: str
    message: str


class ErrorEnvelope(Frozen):
    """Every answer that is no success."""

    error: ErrorBody


class Health(Frozen):
    status: str


_MEANING = {
    400: "An id is not well-formed.",
    401: "No valid bearer token.",
    403: "The conversation belongs to someone else, or the server is addressed by a foreign name.",
    404: "There is no such thing, or it is not the caller's.",
    409: "The conversation or the same request is still being worked on.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "The request is not valid, or its Idempotency-Key was used for another one.",
    429: "Too many turns; Retry-After says when to come back.",
    500: "Something nobody foresaw.",
    503: "Not available; nothing was begun, or the same Idempotency-Key goes on with it. Retry-After says when to come back.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer with these statuses, and with a 500."""
    return {status: {"model": ErrorEnvelope, "description": _MEANING[status]} for status in (*statuses, 500)}

"""Bodies and parameters of requests and responses, as OpenAPI shows them, and the reading of a body.

A body is limited in size while it arrives, and parsed as strict JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import Path, Query
from pydantic import AfterValidator, Field, PlainValidator, StrictBool, ValidationError
from pydantic.config import JsonDict
from pydantic.json_schema import SkipJsonSchema, models_json_schema
from starlette.requests import Request

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, located_violation
from graph_agent.models.decision import MAX_MESSAGE_LENGTH, StorableText, require_storable
from graph_agent.models.mandate import JobName
from graph_agent.models.time_zone import KnownTimeZone, TimeZoneName
from graph_agent.models.unique_keys import RepeatedKeyError, unique_keys
from graph_agent.policy.constitution import MAX_CHARACTERS

MAX_BODY_BYTES = 64 * 1024
MAX_RULES_BYTES = 1024 * 1024
"""A constitution and conditions of the greatest length, unless most of their characters take more than two bytes."""
M = TypeVar("M", bound=Frozen)

UUID_FORMAT: JsonDict = {"format": "uuid"}
"""The format of ids. They are declared as text, because the service refuses a malformed id with its own error code."""

_REFERENCE = "#/components/schemas/{model}"

IdInPath = Annotated[str, Path(json_schema_extra=UUID_FORMAT)]
RulesText = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS), AfterValidator(require_storable)]
"""The text of a constitution or of conditions."""


def id_in_query(description: str) -> Any:
    """Return the declaration of a query parameter that is an id."""
    return Query(json_schema_extra=UUID_FORMAT, description=description)


class Answers(Frozen):
    """The user's answer to a pending action, by its id."""

    pending_action: StorableText = Field(
        min_length=1, max_length=255, pattern=r"^[^\x00]*$", description="The id of the pending action, without a NUL."
    )
    yes: StrictBool = Field(description="True to go ahead, false to drop the action.")
    read: str = Field(
        default="",
        max_length=64,
        description="For an action with `by_id_only`: its `whole_digest`, if the client has shown the whole action.",
    )


class Shown(Frozen):
    """The question that the client shows beside the field in which the message was typed."""

    pending_action: StorableText | None = Field(
        min_length=1, max_length=255, description="The id of the pending action, or null."
    )


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


_TIME_ZONE = Field(
    default="",
    description="The user's time zone by its IANA name, such as Europe/Berlin: questions and replies say times in it.",
)


class ChatRequest(Frozen):
    """One message of the user. With `answers`, the text is stored and shown, but not read."""

    content: str = _CONTENT
    conversation_id: str | None = _CONVERSATION
    time_zone: TimeZoneName = _TIME_ZONE
    answers: Answers | SkipJsonSchema[None] = None
    shown: Shown | SkipJsonSchema[None] = Field(
        default=None,
        description="A typed yes or no answers only this question. Without it, it counts only if no other may be meant.",
    )
    job: JobName = Field(
        default="",
        description="The message is a run of this job, in a new conversation, under the caller's standing plans for it.",
    )


class DryRunRequest(Frozen):
    """A message whose calls are judged and change nothing: the reply says what would be done."""

    content: str = _CONTENT
    conversation_id: str | None = _CONVERSATION
    time_zone: TimeZoneName = _TIME_ZONE
    dry_run: bool


class AnswerRequest(Frozen):
    """An answer to a pending action, without a text."""

    conversation_id: str | None = _CONVERSATION
    time_zone: TimeZoneName = _TIME_ZONE
    answers: Answers


def _require_text(value: Any) -> Any:
    if value is not None and not isinstance(value, str):
        raise ValueError("must be text")
    return value


# Pydantic's own check of a text refuses lone surrogates.
_AnyText = Annotated[str | None, PlainValidator(_require_text)]


class MessageRequest(Frozen):
    """Any of the requests above. The chat service checks the texts, and logs what it refuses."""

    content: _AnyText = None
    conversation_id: _AnyText = None
    answers: Answers | None = None
    shown: Shown | None = None
    dry_run: StrictBool = False
    time_zone: KnownTimeZone = ""
    job: JobName = ""


MESSAGES = (ChatRequest, AnswerRequest, DryRunRequest)


def json_body(*models: type[Frozen], required: bool = True) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads its body itself: one of `models`, which `add_schemas` declares."""
    references = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in models]
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": {"anyOf": references}}}}}


def add_schemas(document: dict[str, Any], models: Iterable[type[Frozen]]) -> dict[str, Any]:
    """Declare `models` in an OpenAPI document, so that a generated client gets classes of their names."""
    _, schema = models_json_schema([(model, "validation") for model in models], ref_template=_REFERENCE)
    document["components"]["schemas"].update(schema["$defs"])
    return document


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


ERRORS_BY_ID = errors(400, 401, 403, 404, 422, 503)
"""The errors of a route that reads something by its id."""


async def read_object(request: Request, max_bytes: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """Return the JSON object in the body of at most `max_bytes`.

    Its strings may still contain lone surrogates, which JSON allows.
    Raises `ServiceError`: UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, VALIDATION_ERROR.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        text = "The request body must be application/json."
        raise ServiceError(ServiceErrorCode.UNSUPPORTED_MEDIA_TYPE, text)
    return _parse(await read_body(request, max_bytes))


async def read_model(request: Request, model: type[M], max_bytes: int = MAX_BODY_BYTES) -> M:
    """Return the JSON object in the body as a `model`. Raises as `read_object`."""
    return validated(model, await read_object(request, max_bytes))


def validated(model: type[M], value: dict[str, Any]) -> M:
    """Return `value` as a `model`. Raises `ServiceError` VALIDATION_ERROR."""
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        if exc.errors()[0]["type"] == "extra_forbidden":
            # The name of the field is a part of the request.
            raise invalid("The request body has an unknown field.") from None
        raise invalid(located_violation(exc)) from None


def invalid(text: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.VALIDATION_ERROR, text)


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of at most `max_bytes`. Raises `ServiceError` PAYLOAD_TOO_LARGE."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def _parse(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(
            body.decode("utf-8"), parse_constant=_reject_constant, parse_float=_parse_finite, object_pairs_hook=unique_keys
        )
    except RepeatedKeyError:
        raise invalid("The request body has a key twice in one object.") from None
    except (ValueError, RecursionError):
        raise invalid("The request body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise invalid("The request body must be a JSON object.")
    return value


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("the number is too large")
    return number


def _too_large(max_bytes: int) -> ServiceError:
    text = f"The request body is larger than {max_bytes // 1024} KB."
    return ServiceError(ServiceErrorCode.PAYLOAD_TOO_LARGE, text)

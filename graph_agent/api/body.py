"""Reading a request body: limited in size while it arrives, and parsed as strict JSON."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, located_violation

MAX_BODY_BYTES = 64 * 1024
MAX_RULES_BYTES = 1024 * 1024
"""A constitution and conditions of the greatest length, unless most of their characters take more than two bytes."""
M = TypeVar("M", bound=Frozen)


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
    try:
        return model.model_validate(await read_object(request, max_bytes))
    except ValidationError as exc:
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
        value = json.loads(body.decode("utf-8"), parse_constant=_reject_constant, parse_float=_parse_finite)
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

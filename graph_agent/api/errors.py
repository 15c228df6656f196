"""Errors over HTTP: one table from error code to status, one envelope, short fixed texts.

    {"error": {"code": "CONVERSATION_NOT_FOUND", "message": "There is no such conversation."}}

An error never repeats a part of the request or the text of an exception.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from graph_agent.db import DatabaseUnavailableError
from graph_agent.errors import RecordUnavailableError, ServiceError, ServiceErrorCode, ToolErrorCode, service_unavailable

_log = logging.getLogger(__name__)

STATUS: dict[ServiceErrorCode, int] = {
    ServiceErrorCode.INVALID_ID_FORMAT: 400,
    ServiceErrorCode.UNAUTHENTICATED: 401,
    ServiceErrorCode.ACCESS_DENIED: 403,
    ServiceErrorCode.CONVERSATION_NOT_FOUND: 404,
    ServiceErrorCode.DECISION_NOT_FOUND: 404,
    ServiceErrorCode.TASK_NOT_FOUND: 404,
    ServiceErrorCode.STOP_NOT_FOUND: 404,
    ServiceErrorCode.QUESTION_NOT_FOUND: 404,
    ServiceErrorCode.MANDATE_NOT_FOUND: 404,
    ServiceErrorCode.QUESTION_CLOSED: 409,
    ServiceErrorCode.RULES_CONFLICT: 409,
    ServiceErrorCode.QUESTION_CONFLICT: 409,
    ServiceErrorCode.NOT_REPEATABLE: 409,
    ServiceErrorCode.NOT_UNDOABLE: 409,
    ServiceErrorCode.CONVERSATION_BUSY: 409,
    ServiceErrorCode.REQUEST_IN_PROGRESS: 409,
    ServiceErrorCode.PAYLOAD_TOO_LARGE: 413,
    ServiceErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
    ServiceErrorCode.VALIDATION_ERROR: 422,
    ServiceErrorCode.IDEMPOTENCY_KEY_REUSED: 422,
    ServiceErrorCode.INVALID_FORMAT: 422,
    ServiceErrorCode.RATE_LIMITED: 429,
    ServiceErrorCode.SERVICE_UNAVAILABLE: 503,
    ServiceErrorCode.STOPPED: 503,
    ServiceErrorCode.RULES_UNAVAILABLE: 503,
    ServiceErrorCode.STORAGE_ERROR: 503,
    ServiceErrorCode.QUERY_TIMEOUT: 503,
    ServiceErrorCode.OUTCOME_UNKNOWN: 504,
}

_RETRY_SECONDS = 5
"""The Retry-After of a 503 whose error gives none."""

UNEXPECTED = (ToolErrorCode.UNKNOWN_ERROR, "Something went wrong. Please try again later.")

_METHODS = ("DELETE", "GET", "POST")
"""The methods of our routes."""

ROUTING_ERRORS = {
    404: ("NOT_FOUND", "There is no resource at this path."),
    405: ("METHOD_NOT_ALLOWED", "This path does not support that method."),
}
"""Errors that the router raises; their codes are not among the codes of the services."""


def error_body(code: str, message: str, decision_id: str | None = None) -> dict[str, Any]:
    error = {"code": code, "message": message}
    if decision_id is not None:
        error["decision_id"] = decision_id
    return {"error": error}


def service_error_body(error: ServiceError) -> dict[str, Any]:
    return error_body(error.code, error.message, error.decision_id)


def envelope(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(error_body(code, message), status, headers)


def service_error_response(error: ServiceError) -> JSONResponse:
    status = STATUS[error.code]
    headers: dict[str, str] = {}
    wait = error.retry_after if error.retry_after is not None or status != 503 else _RETRY_SECONDS
    if wait is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status == 413:
        # The rest of the body is not read.
        headers["Connection"] = "close"
    return JSONResponse(service_error_body(error), status, headers)


def raw_response(response: Response) -> bytes:
    """Return a response as it is sent without the application, before the connection is closed."""
    head = [f"HTTP/1.1 {response.status_code} {HTTPStatus(response.status_code).phrase}", "connection: close"]
    return "\r\n".join((*head, *map(": ".join, response.headers.items()), "", "")).encode() + bytes(response.body)


def busy() -> ServiceError:
    text = "The service is busy. Please try again in a moment."
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=1)


def stream_error_body(failure: BaseException) -> dict[str, Any]:
    """Return the body for a failure after the status was sent. An unexpected one is logged with its traceback."""
    if isinstance(failure, ServiceError | RecordUnavailableError):
        return service_error_body(_service_error(failure))
    _log.error("a stream ended in an exception", exc_info=failure)
    return error_body(*UNEXPECTED)


def _service_error(failure: Exception) -> ServiceError:
    """Return an expected failure as the error of the service. A database that does not answer is logged."""
    if isinstance(failure, DatabaseUnavailableError | RecordUnavailableError):
        _log.warning("a database does not answer", exc_info=failure)
    return failure if isinstance(failure, ServiceError) else service_unavailable()


def _sentence_of(error: RequestValidationError) -> str:
    """Return the first problem with a parameter of the address, without its value."""
    problem = error.errors()[0]
    where, *path = problem["loc"]
    if where != "query":
        return "A parameter or header of the request is not valid."
    sentence = str(problem["msg"]).removeprefix("Value error, ")
    return f"{': '.join([*map(str, path), sentence])}."


def install(app: FastAPI, not_found: Callable[[Request], Response | None] = lambda _: None) -> None:
    """Register handlers that answer every expected error with the envelope; `UnexpectedErrors` answers the others.

    `not_found` may answer a request for an unknown path otherwise.
    """

    @app.exception_handler(ServiceError)
    @app.exception_handler(RecordUnavailableError)
    async def service_error(_request: Request, error: Exception) -> JSONResponse:
        return service_error_response(_service_error(error))

    @app.exception_handler(RequestValidationError)
    async def invalid_parameters(_request: Request, error: RequestValidationError) -> JSONResponse:
        return envelope(422, ServiceErrorCode.VALIDATION_ERROR, _sentence_of(error))

    @app.exception_handler(HTTPException)
    async def routing_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and (answer := not_found(request)) is not None:
            return answer
        if error.status_code == 405:
            # The router names only the methods of the first route with this path.
            asked = [(method, {**request.scope, "method": method}) for method in _METHODS]
            served = (name for name, scope in asked if any(route.matches(scope)[0] is Match.FULL for route in app.routes))
            error.headers = {"Allow": ", ".join(served)}
        code, message = ROUTING_ERRORS.get(error.status_code, ("HTTP_ERROR", "The request cannot be served."))
        return envelope(error.status_code, code, message, dict(error.headers or {}))

"""The failures of a provider: which of our errors to raise, and whether another attempt may help.

The provider's own messages may quote the key, the prompt or an internal address. They are never passed on: our errors have our
messages, and the SDK's exception is chained.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self

from graph_agent.errors import InvalidResponseError, LLMError, LLMTimeoutError, RateLimitError
from graph_agent.llm.context_overflow import Overflow, read_overflow
from graph_agent.models.llm import LLMErrorCause, LLMErrorCode
from graph_agent.reply.causes import CAUSES


@dataclass(frozen=True)
class Failure:
    """The error to raise, and whether another attempt may succeed."""

    error: LLMError
    retryable: bool = False


@dataclass(eq=False, repr=False)
class StatusError(Exception):
    """A response with a status other than 200."""

    status: int
    retry_after: float | None = None
    """The delay in seconds, if the provider gave one."""
    bad_key: bool = False
    """The provider says that the key is not valid. Gemini does so with the status 400."""
    exhausted: bool = False
    """A quota is used up which a short wait does not renew."""
    overflow: Overflow | None = None
    """The sizes, if the request did not fit the context of the model."""
    text: str = ""
    """The provider's own message on one line, which only the operator may see."""

    @classmethod
    def read(cls, status: int, body: str, headers: Mapping[str, str], now: datetime | None = None) -> Self:
        """Return the error for a response. Its `body` may be anything; the status is enough."""
        fields: Any = None
        with suppress(ValueError, RecursionError):
            fields = json.loads(body)
        # Gemini's OpenAI-compatible endpoint wraps the whole error body in a list.
        outer = fields[0] if isinstance(fields, list) and fields else fields
        error = outer.get("error", outer) if isinstance(outer, dict) else None
        text = error.get("message") if isinstance(error, dict) else error
        found = error.get("details") if isinstance(error, dict) else None
        details = [detail for detail in found if isinstance(detail, dict)] if isinstance(found, list) else []
        delay = _retry_after(details, headers, now or datetime.now(UTC))
        return cls(
            status,
            delay,
            bad_key=any(detail.get("reason") in ("API_KEY_INVALID", "API_KEY_EXPIRED") for detail in details),
            exhausted=_EXHAUSTED.search(body) is not None or (delay is None and "quota" in body.lower()),
            overflow=read_overflow(error),
            text=" ".join(text.split())[:_MAX_TEXT] if isinstance(text, str) else "",
        )

    @property
    def may_be_about_requirement(self) -> bool:
        """True if the requirement of a call may be what was refused. A request that is too large is so without it, too."""
        return self.status in _REFUSING_STATUSES and not self.bad_key and self.overflow is None

    def __str__(self) -> str:
        return f"HTTP status {self.status}"


class TruncatedBodyError(Exception):
    """The connection ended in the middle of the body."""


class UnreadableBodyError(ValueError):
    """The body is too large, not UTF-8, or cannot be decompressed."""


_REFUSING_STATUSES = frozenset({400, 404, 422, 501})
"""404 is OpenRouter's answer for a model without the feature. Quota, key and server errors have other causes."""
_TIMEOUTS = frozenset({408, 504})
_KEY_REFUSED = frozenset({401, 403})
_PAYMENT_REQUIRED = 402
_NOT_IMPLEMENTED = 501
"""The only 5xx that is not retryable: the server does not support the request."""
_TOOLS = re.compile(r"\btools?\b|\bfunction.call", re.IGNORECASE)
_EXHAUSTED = re.compile(r"insufficient_quota|PerDay")
_MAX_TEXT = 300


def _failure(
    cause: LLMErrorCause, kind: type[LLMError] = LLMError, *, retryable: bool = False, retry_after: float | None = None
) -> Failure:
    return Failure(kind(str(CAUSES[cause]), retry_after=retry_after, cause=cause), retryable)


def timeout_failure() -> Failure:
    return _failure(LLMErrorCause.TIMEOUT, LLMTimeoutError, retryable=True)


def unreachable_failure(*, retryable: bool) -> Failure:
    return _failure(LLMErrorCause.UNREACHABLE, retryable=retryable)


def unreadable_failure(*, retryable: bool = False) -> Failure:
    return Failure(InvalidResponseError("the model's answer cannot be read"), retryable)


def not_json_failure() -> Failure:
    return _failure(LLMErrorCause.NOT_JSON, InvalidResponseError)


def context_error(overflow: Overflow) -> LLMError:
    cause = LLMErrorCause.CONTEXT_EXCEEDED
    return LLMError(str(CAUSES[cause]), cause=cause, overflow=overflow)


def blocked_error() -> LLMError:
    return LLMError(str(CAUSES[LLMErrorCause.BLOCKED]), LLMErrorCode.BLOCKED)


def failure_for_status(response: StatusError) -> Failure:
    """Return the failure for a status. 429 is retryable only if the provider gives a delay, 5xx also without one."""
    status = response.status
    if status == _PAYMENT_REQUIRED:
        return _failure(LLMErrorCause.QUOTA_EXHAUSTED)
    if status == 429:
        cause = LLMErrorCause.QUOTA_EXHAUSTED if response.exhausted else LLMErrorCause.RATE_LIMITED
        retryable = not response.exhausted and response.retry_after is not None
        return _failure(cause, RateLimitError, retryable=retryable, retry_after=response.retry_after)
    if response.overflow is not None:
        return Failure(context_error(response.overflow))
    if status in _TIMEOUTS:
        return timeout_failure()
    if status >= 500 and status != _NOT_IMPLEMENTED:
        return _failure(LLMErrorCause.SERVER_ERROR, retryable=True, retry_after=response.retry_after)
    if 200 <= status < 300:
        return unreadable_failure()
    if response.bad_key or status in _KEY_REFUSED:
        return _failure(LLMErrorCause.KEY_REFUSED)
    if _TOOLS.search(response.text):
        return _failure(LLMErrorCause.TOOLS_NOT_SUPPORTED)
    return _failure(LLMErrorCause.MODEL_NOT_FOUND if status == 404 else LLMErrorCause.REQUEST_REFUSED)


_DURATION = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)s\s*")


def _retry_after(details: Sequence[dict[str, Any]], headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the delay in seconds that an error response asks for: by `RetryInfo` in its details, else by its headers."""
    for detail in details:
        if "RetryInfo" in str(detail.get("@type")):
            match = _DURATION.fullmatch(str(detail.get("retryDelay")))
            if match:
                return float(match.group(1))
    if (milliseconds := _seconds(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    return _seconds(value) if _seconds(value) is not None else _seconds_until(value, now)


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _seconds_until(date: str | None, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date) if date else None
    except (ValueError, OverflowError):
        return None
    if moment is None:
        return None
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())

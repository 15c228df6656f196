"""The failures of a provider: which of our errors to raise, and whether another attempt may help.

The provider's own messages may quote the key, the prompt or an internal address. They are never passed on: our errors have our
messages, and the SDK's exception is chained.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from graph_agent.errors import InvalidResponseError, LLMError, LLMTimeoutError, RateLimitError
from graph_agent.llm.families import DEFAULT_MODEL, successor
from graph_agent.models.llm import LLMErrorCode


@dataclass(frozen=True)
class Failure:
    """The error to raise, and whether another attempt may succeed."""

    error: LLMError
    retryable: bool = False


class StatusError(Exception):
    """A response with a status other than 200. `retry_after` is in seconds, if the provider gave a delay."""

    def __init__(self, status: int, retry_after: float | None = None, *, bad_key: bool = False) -> None:
        self.status = status
        self.retry_after = retry_after
        self.bad_key = bad_key
        super().__init__(f"HTTP status {status}")


class TruncatedBodyError(Exception):
    """The connection ended in the middle of the body."""


class UnreadableBodyError(Exception):
    """The body is too large, not UTF-8, or cannot be decompressed."""


_TIMEOUTS = frozenset({408, 504})
_KEY_REFUSED = frozenset({401, 403})
_NOT_IMPLEMENTED = 501
"""The only 5xx that is not retryable: the server does not support the request."""


def timeout_failure() -> Failure:
    return Failure(LLMTimeoutError("the model did not answer in time"), retryable=True)


def unreachable_failure() -> Failure:
    return Failure(LLMError("the model's endpoint cannot be reached"), retryable=True)


def unreadable_failure() -> Failure:
    return Failure(InvalidResponseError("the model's answer cannot be read"))


def blocked_error() -> LLMError:
    return LLMError("the provider's content filter blocked the answer", LLMErrorCode.BLOCKED)


def failure_for_status(response: StatusError, model: str) -> Failure:
    """Return the failure for a status. 429 is retryable only if the provider gives a delay, 5xx also without one."""
    status = response.status
    if status == 429:
        error = RateLimitError("the provider's rate limit is reached", retry_after=response.retry_after)
        return Failure(error, retryable=response.retry_after is not None)
    if status in _TIMEOUTS:
        return timeout_failure()
    if status >= 500 and status != _NOT_IMPLEMENTED:
        return Failure(LLMError("the provider has a failure", retry_after=response.retry_after), retryable=True)
    if 200 <= status < 300:
        return unreadable_failure()
    if response.bad_key or status in _KEY_REFUSED:
        return Failure(LLMError("the provider refused the API key"))
    if status == 404:
        return Failure(LLMError(missing_model_message(model)))
    return Failure(LLMError(f"the provider refused the request (status {status})"))


def missing_model_message(model: str) -> str:
    """Return the sentence for a model that the provider does not have."""
    if replacement := successor(model):
        return f"the model {model} is retired: use {replacement}"
    return f"the provider does not have the model {model}; the default is {DEFAULT_MODEL}"


_DURATION = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)s\s*")


def read_retry_after(body: Any, headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the delay in seconds that an error response asks for: by `RetryInfo` in its body, else by its headers."""
    for detail in error_details(body):
        if "RetryInfo" in str(detail.get("@type")):
            match = _DURATION.fullmatch(str(detail.get("retryDelay")))
            if match:
                return float(match.group(1))
    if (milliseconds := _seconds(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    return _seconds(value) if _seconds(value) is not None else _seconds_until(value, now or datetime.now(UTC))


def reports_bad_key(body: Any) -> bool:
    """True if an error body says that the key is not valid. Gemini does so with the status 400."""
    return any(detail.get("reason") in ("API_KEY_INVALID", "API_KEY_EXPIRED") for detail in error_details(body))


def error_details(body: Any) -> list[dict[str, Any]]:
    """Return `error.details` of a Google error body; an empty list for any other body.

    Gemini's OpenAI-compatible endpoint wraps the whole error body in a list.
    """
    outer = body[0] if isinstance(body, list) and body else body
    error = outer.get("error") if isinstance(outer, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []


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

"""How a call to a provider fails, and whether trying once more can help.

The provider's words end here. They may quote the key, the prompt or an internal address, so no sentence of theirs is passed
on: the errors below carry ours, and the foreign exception is chained for the log.
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
    """What to raise, and whether another attempt may succeed."""

    error: LLMError
    passing: bool = False


class RefusedError(Exception):
    """The provider answered with a status other than 200; `retry_after` is in seconds, where it said so."""

    def __init__(self, status: int, retry_after: float | None = None, *, bad_key: bool = False) -> None:
        self.status = status
        self.retry_after = retry_after
        self.bad_key = bad_key
        super().__init__(f"HTTP status {status}")


class CutShortError(Exception):
    """The connection ended in the middle of the body."""


class UnreadableError(Exception):
    """The body is too large, not UTF-8, or does not decompress."""


_TIMEOUTS = frozenset({408, 504})
_KEY_REFUSED = frozenset({401, 403})


def timed_out() -> Failure:
    return Failure(LLMTimeoutError("the model did not answer in time"), passing=True)


def unreachable() -> Failure:
    return Failure(LLMError("the model's endpoint cannot be reached"), passing=True)


def unreadable() -> Failure:
    return Failure(InvalidResponseError("the model's answer cannot be read"))


def blocked() -> LLMError:
    return LLMError("the provider's content filter blocked the answer", LLMErrorCode.BLOCKED)


def refused(refusal: RefusedError, model: str) -> Failure:
    """What a status means. 429 passes only if the provider says when; 5xx may pass at once."""
    status = refusal.status
    if status == 429:
        error = RateLimitError("the provider's rate limit is reached", retry_after=refusal.retry_after)
        return Failure(error, passing=refusal.retry_after is not None)
    if status in _TIMEOUTS:
        return timed_out()
    if status >= 500:
        return Failure(LLMError("the provider has a failure", retry_after=refusal.retry_after), passing=True)
    if 200 <= status < 300:
        return unreadable()
    if refusal.bad_key or status in _KEY_REFUSED:
        return Failure(LLMError("the provider refused the API key"))
    if status == 404:
        return Failure(LLMError(missing_model(model)))
    return Failure(LLMError(f"the provider refused the request (status {status})"))


def missing_model(model: str) -> str:
    """The sentence for a model that the provider does not have."""
    if replacement := successor(model):
        return f"the model {model} was shut down: use {replacement}"
    return f"the provider does not have the model {model}; the default is {DEFAULT_MODEL}"


_DURATION = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)s\s*")


def retry_after(body: Any, headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds to wait, from `RetryInfo` in an error body (also list-wrapped) or else from the headers; None if not said."""
    for detail in error_details(body):
        if "RetryInfo" in str(detail.get("@type")):
            match = _DURATION.fullmatch(str(detail.get("retryDelay")))
            if match:
                return float(match.group(1))
    if (milliseconds := _seconds(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    said = headers.get("retry-after")
    return _seconds(said) if _seconds(said) is not None else _until(said, now or datetime.now(UTC))


def refuses_key(body: Any) -> bool:
    """Whether an error body says that the key is not valid: Gemini does so with status 400."""
    return any(detail.get("reason") in ("API_KEY_INVALID", "API_KEY_EXPIRED") for detail in error_details(body))


def error_details(body: Any) -> list[dict[str, Any]]:
    """`error.details` of a Google error body, plain or wrapped in a list; empty for anything else."""
    outer = body[0] if isinstance(body, list) and body else body
    error = outer.get("error") if isinstance(outer, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []


def _seconds(said: str | None) -> float | None:
    try:
        value = float(said) if said is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(said: str | None, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(said) if said else None
    except (ValueError, OverflowError):
        return None
    if moment is None:
        return None
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())

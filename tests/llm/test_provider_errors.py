from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from graph_agent.llm.provider_errors import StatusError, failure_for_status

INFO = "type.googleapis.com/google.rpc.RetryInfo"


def retry_info(delay: Any) -> Any:
    return {"error": {"details": [{"@type": "other"}, {"@type": INFO, "retryDelay": delay}]}}


@pytest.mark.parametrize(
    ("body", "headers", "seconds"),
    [
        (retry_info("34s"), {}, 34),
        (retry_info("1.5s"), {"retry-after": "9"}, 1.5),
        ([retry_info("2s")], {}, 2),
        (retry_info("-1s"), {}, None),
        (retry_info("1e9s"), {}, None),
        (retry_info(3), {}, None),
        (None, {"retry-after": "7"}, 7),
        (None, {"retry-after-ms": "250"}, 0.25),
        (None, {"retry-after": "inf"}, None),
        (None, {"retry-after": "-3"}, None),
        (None, {"retry-after": "soon"}, None),
        (None, {"retry-after": "Mon, 05 Jan 2026 09:00:30 GMT"}, 30),
        (None, {"retry-after": "Mon, 05 Jan 2026 08:00:00 GMT"}, 0),
        (None, {"retry-after": f"Mon, 05 Jan {10**20} 09:00:00 GMT"}, None),
        ("text", {}, None),
        ([], {}, None),
        ({"error": "text"}, {}, None),
        ({"error": {"details": {}}}, {}, None),
    ],
)
def test_the_delay_is_read_from_the_body_or_the_headers(body: Any, headers: dict[str, str], seconds: float | None) -> None:
    now = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    assert StatusError.read(503, json.dumps(body), headers, now).retry_after == seconds


def test_a_bad_key_is_recognized_behind_status_400() -> None:
    refusal = StatusError.read(400, '{"error": {"details": [{"reason": "API_KEY_INVALID"}]}}', {})
    assert refusal.bad_key
    assert failure_for_status(refusal).error.cause == "KEY_REFUSED"


@pytest.mark.parametrize(
    ("text", "delay", "exhausted"),
    [
        ('{"error": {"code": "insufficient_quota"}}', None, True),
        ('{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}', 20.0, True),
        ('{"message": "You exceeded your current quota"}', None, True),
        ('{"message": "You exceeded your current quota", "retryDelay": "20s"}', 20.0, False),
        ('{"message": "too many requests"}', None, False),
        ("", None, False),
    ],
)
def test_an_exhausted_quota_is_told_from_a_limit_of_the_rate(text: str, delay: float | None, exhausted: bool) -> None:
    refusal = StatusError.read(429, text, {} if delay is None else {"retry-after": str(delay)})
    assert (refusal.retry_after, refusal.exhausted) == (delay, exhausted)
    failure = failure_for_status(refusal)
    assert failure.error.cause == ("QUOTA_EXHAUSTED" if exhausted else "RATE_LIMITED")
    assert failure.retryable is (delay is not None and not exhausted)


@pytest.mark.parametrize(
    ("status", "text", "cause"),
    [
        (400, "gemma does not support tools", "TOOLS_NOT_SUPPORTED"),
        (404, "No endpoints found that support tool use", "TOOLS_NOT_SUPPORTED"),
        (404, "model not found", "MODEL_NOT_FOUND"),
        (400, "unknown field", "REQUEST_REFUSED"),
        (402, "no credit", "QUOTA_EXHAUSTED"),
        (501, "tool_choice", "REQUEST_REFUSED"),
        (502, "tools", "SERVER_ERROR"),
    ],
)
def test_the_cause_of_a_status_is_found_by_the_text_of_the_server_too(status: int, text: str, cause: str) -> None:
    assert failure_for_status(StatusError(status, text=text)).error.cause == cause


def test_neither_the_text_nor_the_form_of_a_status_error_quotes_the_server() -> None:
    error = StatusError.read(400, json.dumps({"error": {"message": "the key sk-123 is wrong"}}), {})
    assert error.text == "the key sk-123 is wrong"
    assert "sk-123" not in f"{error} {error!r}"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "one\n two"}}, "one two"),
        ([{"error": {"message": "in a list"}}], "in a list"),
        ({"error": "as text"}, "as text"),
        ({"object": "error", "message": "without an error"}, "without an error"),
        ({"error": {"message": 3}}, ""),
        (None, ""),
        ({"error": {"message": "x" * 1000}}, "x" * 300),
    ],
)
def test_the_text_of_an_error_body_is_one_short_line(body: Any, text: str) -> None:
    refusal = StatusError.read(400, json.dumps(body), {})
    assert (refusal.text, str(refusal)) == (text, "HTTP status 400")

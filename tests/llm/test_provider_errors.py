from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from graph_agent.llm.provider_errors import StatusError, failure_for_status, read_retry_after, reports_bad_key

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
    assert read_retry_after(body, headers, datetime(2026, 1, 5, 9, 0, tzinfo=UTC)) == seconds


def test_a_bad_key_is_recognized_behind_status_400() -> None:
    assert reports_bad_key({"error": {"details": [{"reason": "API_KEY_INVALID"}]}})
    assert failure_for_status(StatusError(400, bad_key=True), "m").error.message == "the provider refused the API key"


def test_the_message_for_a_retired_model_names_its_successor() -> None:
    message = failure_for_status(StatusError(404), "gemini-2.0-flash").error.message
    assert message == "the model gemini-2.0-flash is retired: use gemini-3.8-flash"


def test_the_message_for_an_unknown_model_names_the_default() -> None:
    message = failure_for_status(StatusError(404), "gemini-9").error.message
    assert message == "the provider does not have the model gemini-9; the default is gemini-3.8-flash"

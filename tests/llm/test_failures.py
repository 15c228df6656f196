from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from graph_agent.llm.failures import RefusedError, refused, refuses_key, retry_after

INFO = "type.googleapis.com/google.rpc.RetryInfo"


def said(delay: Any) -> Any:
    return {"error": {"details": [{"@type": "other"}, {"@type": INFO, "retryDelay": delay}]}}


@pytest.mark.parametrize(
    ("body", "headers", "seconds"),
    [
        (said("34s"), {}, 34),
        (said("1.5s"), {"retry-after": "9"}, 1.5),
        ([said("2s")], {}, 2),
        (said("-1s"), {}, None),
        (said("1e9s"), {}, None),
        (said(3), {}, None),
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
def test_a_wait_is_read_where_a_provider_may_say_it(body: Any, headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(body, headers, datetime(2026, 1, 5, 9, 0, tzinfo=UTC)) == seconds


def test_a_bad_key_is_recognised_behind_status_400() -> None:
    assert refuses_key({"error": {"details": [{"reason": "API_KEY_INVALID"}]}})
    assert refused(RefusedError(400, bad_key=True), "m").error.message == "the provider refused the API key"


def test_a_retired_model_is_told_with_its_successor() -> None:
    message = refused(RefusedError(404), "gemini-2.0-flash").error.message
    assert message == "the model gemini-2.0-flash was shut down: use gemini-3.8-flash"


def test_another_missing_model_is_told_with_the_default() -> None:
    message = refused(RefusedError(404), "gemini-9").error.message
    assert message == "the provider does not have the model gemini-9; the default is gemini-3.8-flash"

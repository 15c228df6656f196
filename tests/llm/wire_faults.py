"""Scenarios of error statuses, rate limits, slow replies and broken connections: which are retried, and how they end."""

from __future__ import annotations

import json
from typing import Any

from graph_agent.llm.http_client import MAX_BODY_BYTES
from tests.llm.wire_apis import API
from tests.llm.wire_scenarios import INVALID, TIMEOUT, UNAVAILABLE, Outcome, Scenario, limited, text
from tests.llm.wire_server import Reply, babbles, closes, drips, half, hangs, late, resets, says, sends

YES = text("Yes.")
SHORT = 1.0
"""The time limit of one attempt in scenarios that wait for it."""


def _yes(api: API) -> Reply:
    return says(api.answer(text="Yes."))


def _body(api: API) -> bytes:
    return json.dumps(api.answer(text="Yes.")).encode()


def _wait(said: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": said}


_BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}


def _refusal(status: int, *details: dict[str, Any], wire: str = "") -> Scenario:
    return Scenario(
        wire or f"status {status}",
        lambda s: [says(s.error(status, *details), status)],
        UNAVAILABLE,
        unusable=status in (400, 404, 422, 501) and not details,
    )


def _overflow(status: int, message: str) -> Scenario:
    return Scenario(
        f"status {status}: the request does not fit the model's context",
        lambda s: [says(s.error(status, message=message), status)],
        UNAVAILABLE,
    )


def _passing(wire: str, status: int, then: Outcome, *details: dict[str, Any], **headers: str) -> tuple[Scenario, Scenario]:
    return (
        Scenario(f"{wire}, then an answer", lambda s: [says(s.error(status, *details), status, **headers), _yes(s)], YES, 2),
        Scenario(f"{wire}, twice", lambda s: [says(s.error(status, *details), status, **headers)], then, 2),
    )


REFUSALS = (
    _refusal(400),
    _refusal(400, _BAD_KEY, wire="status 400: the key is not valid"),
    *(_refusal(status) for status in (401, 402, 403, 404, 405, 409, 410, 413, 415, 418, 422, 451, 501)),
    _overflow(400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."),
    _overflow(413, "Request too large for model: Limit 6000 tokens, Requested 7500"),
    _overflow(500, "the request exceeds the available context size. try increasing the context size"),
    Scenario("status 301", lambda _: [sends(b"", 301, location="http://127.0.0.1:1/")], UNAVAILABLE),
    Scenario("status 304", lambda _: [sends(b"", 304)], UNAVAILABLE),
    Scenario("status 400 with a page of HTML", lambda _: [sends(b"<html>", 400, "text/html")], UNAVAILABLE, unusable=True),
    Scenario("status 400 with bytes that are not UTF-8", lambda _: [sends(b"\xff\xfe", 400)], UNAVAILABLE, unusable=True),
    Scenario(
        "status 400 with half a body", lambda s: [half(json.dumps(s.error(400)).encode(), 400)], UNAVAILABLE, unusable=True
    ),
    Scenario("status 404 with null", lambda _: [sends(b"null", 404)], UNAVAILABLE, unusable=True),
)

LIMITS = (
    *_passing("status 429 with a wait that fits", 429, limited(0.05), _wait("0.05s")),
    Scenario("status 429 with a wait that is too long", lambda s: [says(s.error(429, _wait("60s")), 429)], limited(60)),
    Scenario("status 429 without a wait", lambda s: [says(s.error(429), 429)], limited(None)),
    Scenario(
        "status 429 with a wait that is not a duration", lambda s: [says(s.error(429, _wait("soon")), 429)], limited(None)
    ),
    Scenario(
        "status 429 with details that are not objects", lambda _: [says({"error": {"details": ["x", 7]}}, 429)], limited(None)
    ),
    Scenario("status 429 with an empty body", lambda _: [sends(b"", 429)], limited(None)),
    Scenario("status 429 with half a body", lambda s: [half(json.dumps(s.error(429)).encode(), 429)], limited(None)),
    Scenario(
        "status 429 with a body that does not decompress", lambda _: [sends(b"no", 429, content_encoding="gzip")], limited(None)
    ),
    Scenario(
        "status 429 with a date beyond the calendar",
        lambda s: [says(s.error(429), 429, retry_after=f"Thu, 01 Jan {10**20} 00:00:00 GMT")],
        limited(None),
    ),
    Scenario("status 429 with an empty list", lambda _: [says([], 429)], limited(None)),
    Scenario(
        "status 429 with the wait in a header, then an answer",
        lambda s: [says(s.error(429), 429, retry_after="0"), _yes(s)],
        YES,
        2,
    ),
    Scenario("status 429 with a long wait in a header", lambda s: [says(s.error(429), 429, retry_after="90")], limited(90)),
)

FAILURES = (
    *_passing("status 500", 500, UNAVAILABLE),
    *_passing("status 503", 503, UNAVAILABLE),
    *_passing("status 529", 529, UNAVAILABLE),
    *_passing("status 408", 408, TIMEOUT),
    *_passing("status 504", 504, TIMEOUT),
    Scenario("status 502 with a page of HTML, then an answer", lambda s: [sends(b"<html>", 502, "text/html"), _yes(s)], YES, 2),
    Scenario("status 503 with bytes that are not UTF-8, then an answer", lambda s: [sends(b"\xff", 503), _yes(s)], YES, 2),
    Scenario(
        "status 503 with a body that does not decompress, then an answer",
        lambda s: [sends(b"no", 503, content_encoding="gzip"), _yes(s)],
        YES,
        2,
    ),
    Scenario(
        "status 503 with a body beyond the limit, then an answer",
        lambda s: [sends(bytes(MAX_BODY_BYTES + 1), 503), _yes(s)],
        YES,
        2,
    ),
    Scenario("status 500 with null, twice", lambda _: [sends(b"null", 500)], UNAVAILABLE, 2),
    Scenario("status 500 with a list of numbers, twice", lambda _: [sends(b"[1]", 500)], UNAVAILABLE, 2),
    Scenario(
        "status 500, then status 429 without a wait",
        lambda s: [says(s.error(500), 500), says(s.error(429), 429)],
        limited(None),
        2,
    ),
    Scenario("status 500, then status 403", lambda s: [says(s.error(500), 500), says(s.error(403), 403)], UNAVAILABLE, 2),
    Scenario("status 500, then an empty object", lambda s: [says(s.error(500), 500), says({})], INVALID, 2, unusable=True),
)

SLOWNESS = (
    Scenario("no answer", lambda _: [hangs()], TIMEOUT, 2, SHORT),
    Scenario("no answer, then an answer", lambda s: [hangs(), _yes(s)], YES, 2, SHORT),
    Scenario("one byte every 0.05 s", lambda s: [drips(_body(s), 0.05)], TIMEOUT, 2, SHORT),
    Scenario("a slow answer within the limit", lambda s: [late(0.1, _yes(s))], YES),
    Scenario("a slow error within the limit", lambda s: [late(0.1, says(s.error(400), 400))], UNAVAILABLE, unusable=True),
)

CONNECTIONS = (
    Scenario("a connection that is closed, then an answer", lambda s: [closes(), _yes(s)], YES, 2),
    Scenario("a connection that is closed, twice", lambda _: [closes()], UNAVAILABLE, 2),
    Scenario("a connection that is reset, then an answer", lambda s: [resets(), _yes(s)], YES, 2),
    Scenario("a connection that is reset, twice", lambda _: [resets()], UNAVAILABLE, 2),
    Scenario("half a body, then an answer", lambda s: [half(_body(s)), _yes(s)], YES, 2),
    Scenario("half a body, twice", lambda s: [half(_body(s))], INVALID, 2),
    Scenario("bytes that are not HTTP, twice", lambda _: [babbles(b"SSH-2.0-OpenSSH\r\n\r\n")], UNAVAILABLE, 2),
)

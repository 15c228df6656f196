"""Invalid requests get a documented status and the error envelope, which never repeats a part of the request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from graph_agent.models.decision import MAX_MESSAGE_LENGTH
from tests.chat.environment import Environment

_JSON = {"Content-Type": "application/json"}
_UNKNOWN = "00000000-0000-4000-8000-000000000000"

BODIES = {
    "nothing": b"",
    "no JSON": b"hello",
    "half of JSON": b'{"content": "hi"',
    "a list": b'[{"content": "hi"}]',
    "null": b"null",
    "a string": b'"hi"',
    "no content": b"{}",
    "content null": b'{"content": null}',
    "content a number": b'{"content": 1}',
    "content NaN": b'{"content": NaN}',
    "content infinite": b'{"content": -Infinity}',
    "a number beyond floats": b'{"content": 1e999}',
    "a number of 5,000 digits": b'{"content": ' + b"9" * 5000 + b"}",
    "content a list": b'{"content": ["hi"]}',
    "an unknown field": b'{"content": "hi", "user_id": "bob"}',
    "a conversation that is a number": b'{"content": "hi", "conversation_id": 1}',
    "100,000 brackets": b"[" * 50_000,
    "brackets inside": b'{"content": ' + b"[" * 50_000,
    "no UTF-8": b'{"content": "\xff"}',
    "UTF-16": '{"content": "hi"}'.encode("utf-16"),
    "a raw surrogate": b'{"content": "\xed\xa0\x80"}',
    "a key twice": b'{"content": "hi", "content": "delete all"}',
    "a lone surrogate": b'{"content": "a \\ud800 b"}',
    "a lone surrogate as a field": b'{"\\ud800": 1, "content": "hi"}',
    "NUL": b'{"content": "a \\u0000 b"}',
    "a raw NUL": b'{"content": "a \x00 b"}',
    "empty": b'{"content": ""}',
    "blank": b'{"content": " \\n\\t\\u00a0 "}',
    "4,001 characters": json.dumps({"content": "x" * (MAX_MESSAGE_LENGTH + 1)}).encode(),
}

LOGGED = {"a lone surrogate", "NUL", "empty", "blank", "4,001 characters"}
"""A well-formed request that is refused for its content is logged as a decision."""


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_that_is_not_a_message_is_invalid(environment: Environment, client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post("/api/chat", content=BODIES[name], headers=_JSON)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) == {"code", "message"}
    assert len(answer.content) < 200
    assert await environment.turns() == []
    logged = [("RESPOND_ONLY", "ERROR:USER_INPUT", "completed")] if name in LOGGED else []
    assert await environment.decisions() == logged


async def test_the_longest_message_is_a_message(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/chat", json={"content": "😀" * MAX_MESSAGE_LENGTH})
    assert answer.status_code == 200


async def test_a_field_given_as_null_is_not_given(client: httpx.AsyncClient) -> None:
    assert (await client.post("/api/chat", json={"content": "hi", "conversation_id": None})).status_code == 200


@pytest.mark.parametrize("identity", ["1", "", "x" * 36, f"{{{_UNKNOWN}}}", _UNKNOWN.replace("-", ""), "\ud800", "\x00"])
async def test_an_id_is_a_uuid(environment: Environment, client: httpx.AsyncClient, identity: str) -> None:
    sent = json.dumps({"content": "hi", "conversation_id": identity}).encode()
    answer = await client.post("/api/chat", content=sent, headers=_JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_ID_FORMAT")
    assert await environment.decisions() == []


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/conversations/1", 400, "INVALID_ID_FORMAT"),
        ("/api/conversations/%00", 400, "INVALID_ID_FORMAT"),
        (f"/api/conversations/{_UNKNOWN}", 404, "CONVERSATION_NOT_FOUND"),
        ("/api/conversations?before=1", 400, "INVALID_ID_FORMAT"),
        (f"/api/conversations?before={_UNKNOWN}", 404, "CONVERSATION_NOT_FOUND"),
        ("/api/conversations?limit=0", 422, "VALIDATION_ERROR"),
        ("/api/conversations?limit=1e9", 422, "VALIDATION_ERROR"),
        (f"/api/conversations?limit={'9' * 5000}", 422, "VALIDATION_ERROR"),
        ("/api/decisions/1", 400, "INVALID_ID_FORMAT"),
        (f"/api/decisions/{_UNKNOWN}", 404, "DECISION_NOT_FOUND"),
        ("/api", 404, "NOT_FOUND"),
        ("/api/conversations/", 404, "NOT_FOUND"),
        ("/docs", 404, "NOT_FOUND"),
        ("/%ff", 404, "NOT_FOUND"),
        ("/api/chat", 405, "METHOD_NOT_ALLOWED"),
    ],
)
async def test_a_resource_that_cannot_be_read_gives_its_error_code(
    client: httpx.AsyncClient, path: str, status: int, code: str
) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"])
async def test_other_methods_are_refused_in_the_envelope(client: httpx.AsyncClient, method: str) -> None:
    answer = await client.request(method, "/api/chat")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "POST"


async def test_a_refused_method_gets_the_methods_of_every_route_with_its_path(client: httpx.AsyncClient) -> None:
    answer = await client.request("OPTIONS", "/api/session")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, POST")


@pytest.mark.parametrize("number", ["0.5", "5", "1e9", "-1", "1790000000"])
async def test_a_number_is_no_time(client: httpx.AsyncClient, number: str) -> None:
    for path in ("/api/decisions", "/api/metrics"):
        answer = await client.get(path, params={"until": number})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", "", None]
)
async def test_only_json_is_read(client: httpx.AsyncClient, media_type: str | None) -> None:
    headers = {} if media_type is None else {"Content-Type": media_type}
    answer = await client.post("/api/chat", content=b'{"content": "hi"}', headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_variants_of_the_json_content_type_are_accepted(client: httpx.AsyncClient, media_type: str) -> None:
    answer = await client.post("/api/chat", content=b'{"content": "hi"}', headers={"Content-Type": media_type})
    assert answer.status_code == 200


async def test_a_body_of_64_kb_is_read_and_one_byte_more_is_not(client: httpx.AsyncClient) -> None:
    just = b'{"content": "hi"' + b" " * (64 * 1024 - 17) + b"}"
    assert (await client.post("/api/chat", content=just, headers=_JSON)).status_code == 200
    answer = await client.post("/api/chat", content=just + b" ", headers=_JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize("declared", [{}, {"Content-Length": "10"}, {"Content-Length": "x"}])
async def test_an_endless_body_is_read_only_up_to_the_limit(client: httpx.AsyncClient, declared: dict[str, str]) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 20_000_000:
            sent += 1000
            yield b"[" * 1000

    answer = await client.post("/api/chat", content=endless(), headers={**_JSON, **declared})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert sent < 70_000


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256])
async def test_a_malformed_idempotency_key_is_refused(client: httpx.AsyncClient, key: str) -> None:
    headers = {b"Idempotency-Key": key.encode("latin-1")}
    answer = await client.post("/api/chat", json={"content": "hi"}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


@pytest.mark.parametrize("zone", ["Nowhere/At_all", "../etc/passwd", "localtime", "x" * 5_000, "\u202eEurope/Berlin", 1, None])
async def test_what_is_no_time_zone_is_refused_in_one_sentence_before_a_turn(
    environment: Environment, client: httpx.AsyncClient, zone: object
) -> None:
    answer = await client.post("/api/chat", json={"content": "add a task to call mom", "time_zone": zone})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "VALIDATION_ERROR")
    assert error["message"].startswith("time_zone: ")
    assert len(error["message"]) < 150
    assert await environment.records() == []


async def test_the_time_zone_of_a_message_is_in_its_record(environment: Environment, client: httpx.AsyncClient) -> None:
    zone = "America/Argentina/Buenos_Aires"
    answer = await client.post("/api/chat", json={"content": "add a task to call mom", "time_zone": zone})
    assert answer.status_code == 200
    (record,) = await environment.records()
    assert record.header.context.time_zone == zone

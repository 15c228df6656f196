"""The responses to a client that stays open: compressed JSON, and of a list only what is new."""

from __future__ import annotations

import httpx

from tests.api.test_record import said


async def test_a_large_answer_is_compressed_for_a_client_that_accepts_it(client: httpx.AsyncClient) -> None:
    for number in range(8):
        await said(client, f"add a task to water plant {number}")
    plain = await client.get("/api/decisions", headers={"accept-encoding": "identity"})
    packed = await client.get("/api/decisions", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == plain.json()
    assert int(packed.headers["content-length"]) * 4 < int(plain.headers["content-length"])


async def test_a_small_answer_and_a_stream_of_events_are_sent_as_they_are(client: httpx.AsyncClient) -> None:
    assert "content-encoding" not in (await client.get("/healthz")).headers
    stream = await client.post("/api/chat/stream", json={"content": "add a task to call mom"})
    assert (stream.headers["content-type"].partition(";")[0], "content-encoding" in stream.headers) == (
        "text/event-stream",
        False,
    )


async def test_an_open_list_gets_only_the_decisions_that_are_newer(client: httpx.AsyncClient) -> None:
    first, second, third = [await said(client, text) for text in ("hello", "show my tasks", "thank you")]
    newer = (await client.get("/api/decisions", params={"after": first})).json()
    assert [item["decision_id"] for item in newer["items"]] == [third, second]
    assert (newer["total"], newer["has_more"]) == (3, False)
    between = (await client.get("/api/decisions", params={"after": first, "before": third})).json()
    assert [item["decision_id"] for item in between["items"]] == [second]
    nothing = await client.get("/api/decisions", params={"after": third})
    assert nothing.json()["items"] == []
    assert len(nothing.content) + sum(len(name) + len(value) + 4 for name, value in nothing.headers.raw) < 1024


async def test_an_unknown_decision_has_nothing_newer(client: httpx.AsyncClient) -> None:
    unknown = await client.get("/api/decisions", params={"after": "00000000-0000-4000-8000-000000000000"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "DECISION_NOT_FOUND")

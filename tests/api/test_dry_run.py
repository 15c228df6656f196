"""`"dry_run": true` in a message: the calls are judged and nothing is changed."""

from __future__ import annotations

import httpx
import pytest


async def test_a_dry_run_over_http_changes_nothing(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/chat", json={"content": "add a task to call mom", "dry_run": True})
    decision = answer.json()["decision"]
    assert answer.json()["reply"].startswith("Nothing was changed yet.")
    assert decision["effects"] == []
    assert decision["notices"] == ["Not done: add task 'call mom'. This is a dry run: it would be done."]
    assert decision["outcome_category"] == "SUCCESS:RESPONSE_GIVEN"
    assert (await client.get("/api/tasks")).json()["items"] == []


@pytest.mark.parametrize("value", ["yes", 1, None])
async def test_the_field_is_true_or_false(client: httpx.AsyncClient, value: object) -> None:
    answer = await client.post("/api/chat", json={"content": "hi", "dry_run": value})
    assert answer.status_code == 422


async def test_a_key_of_a_dry_run_is_not_that_of_the_real_request(client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k1"}
    message = {"content": "add a task to call mom"}
    assert (await client.post("/api/chat", json={**message, "dry_run": True}, headers=key)).status_code == 200
    assert (await client.post("/api/chat", json=message, headers=key)).status_code == 422

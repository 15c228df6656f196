"""Tasks, the constitution and the verification of the record over HTTP."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.policy.constitution import Constitution
from tests.api.test_record import guarded, headers, said
from tests.audit.builders import NOON, make_record, store_records
from tests.chat.environment import Environment

__all__ = ["guarded"]


async def streamed(client: httpx.AsyncClient, path: str) -> list[tuple[str, Any]]:
    """Return kind and data of every event."""
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    blocks = [block.splitlines() for block in answer.text.replace("\r\n", "\n").split("\n\n")]
    found = [dict(line.split(": ", 1) for line in block if not line.startswith(":")) for block in blocks]
    return [(event["event"], json.loads(event["data"])) for event in found if event]


async def test_tasks_are_the_callers_own_and_have_pages(guarded: httpx.AsyncClient) -> None:
    for task in ("call mom", "buy milk", "pay rent"):
        await said(guarded, f"add a task to {task}", headers=headers("ann"))
    ann = headers("ann", "auditor")
    first = (await guarded.get("/api/tasks", params={"limit": 2}, headers=ann)).json()
    rest = (await guarded.get("/api/tasks", params={"limit": 2, "before": first["items"][-1]["id"]}, headers=ann)).json()
    assert [task["description"] for task in first["items"] + rest["items"]] == ["pay rent", "buy milk", "call mom"]
    assert (first["has_more"], rest["has_more"]) == (True, False)
    assert (await guarded.get("/api/tasks", params={"status": "completed"}, headers=ann)).json()["items"] == []
    # An auditor reads the record of others, not their tasks.
    assert (await guarded.get("/api/tasks", headers=headers("bob", "auditor"))).json()["items"] == []
    unknown = await guarded.get("/api/tasks", params={"before": "00000000-0000-4000-8000-000000000000"}, headers=ann)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "TASK_NOT_FOUND")


async def test_pending_tasks_have_pages_without_the_completed_ones(client: httpx.AsyncClient) -> None:
    for task in ("call mom", "buy milk", "pay rent"):
        await said(client, f"add a task to {task}")
    await said(client, "I bought milk")
    page = (await client.get("/api/tasks", params={"limit": 1, "status": "pending"})).json()
    assert ([task["description"] for task in page["items"]], page["has_more"]) == (["pay rent"], True)
    rest = (await client.get("/api/tasks", params={"status": "pending", "before": page["items"][0]["id"]})).json()
    assert ([task["description"] for task in rest["items"]], rest["has_more"]) == (["call mom"], False)


async def test_the_session_names_the_user(client: httpx.AsyncClient, guarded: httpx.AsyncClient) -> None:
    assert (await client.get("/api/session")).json() == {"user_id": LOCAL_USER, "auditor": False}
    assert (await guarded.get("/api/session", headers=headers("ann", "auditor"))).json() == {"user_id": "ann", "auditor": True}
    assert (await guarded.get("/api/session")).status_code == 401
    assert (await guarded.delete("/api/session", headers=headers("ann"))).status_code == 204


async def test_the_constitution_is_the_one_in_force(client: httpx.AsyncClient) -> None:
    found = (await client.get("/api/constitution")).json()
    expected = Constitution.load(None)
    assert (found["text"], found["digest"], found["conditions"]) == (expected.text, expected.digest, None)
    assert [tool["name"] for tool in found["tools"]] == list(expected.whitelist)
    assert [(tool["name"], tool["title"]) for tool in found["tools"] if tool["requires_confirmation"]] == [
        ("delete_task", "Delete task")
    ]


async def test_decisions_have_pages_that_new_decisions_do_not_move(client: httpx.AsyncClient) -> None:
    ids = [await said(client, text) for text in ("hello", "show my tasks", "what's the weather?")]
    first = (await client.get("/api/decisions", params={"limit": 2})).json()
    ids.append(await said(client, "thank you"))
    rest = (await client.get("/api/decisions", params={"limit": 2, "before": first["items"][-1]["decision_id"]})).json()
    assert [item["decision_id"] for item in first["items"] + rest["items"]] == [ids[2], ids[1], ids[0]]
    assert (first["has_more"], rest["has_more"], rest["total"]) == (True, False, 4)
    unknown = await client.get("/api/decisions", params={"before": "00000000-0000-4000-8000-000000000000"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "DECISION_NOT_FOUND")


async def test_a_page_behind_the_decision_of_another_user_is_refused_like_an_unknown_one(guarded: httpx.AsyncClient) -> None:
    before = {"before": await said(guarded, "hello", headers=headers("ann"))}
    refused = await guarded.get("/api/decisions", params=before, headers=headers("bob"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "DECISION_NOT_FOUND")
    for reader in (headers("ann"), headers("bob", "auditor")):
        assert (await guarded.get("/api/decisions", params=before, headers=reader)).status_code == 200


async def test_the_record_is_the_exported_one_and_a_decision_is_a_test_case(client: httpx.AsyncClient) -> None:
    decision_id = await said(client, "add a task to call mom")
    *texts, last = (await client.get(f"/api/decisions/{decision_id}/record")).json()
    assert {one["type"] for one in texts} == {"blob"}
    assert Constitution.load(None).text in {one["text"] for one in texts}
    assert last["record"]["header"]["decision_id"] == decision_id
    case = (await client.get(f"/api/decisions/{decision_id}/fixture")).text
    assert "input: add a task to call mom" in case
    assert "expected_tool: add_task" in case


async def test_users_get_the_records_of_their_own_decisions_only(guarded: httpx.AsyncClient) -> None:
    of_ann = await said(guarded, "add a task to call mom", headers=headers("ann"))
    for path in ("record", "states", "fixture"):
        address = f"/api/decisions/{of_ann}/{path}"
        statuses = [
            (await guarded.get(address, headers=who)).status_code
            for who in (headers("ann"), headers("bob"), headers("eve", "auditor"))
        ]
        assert statuses == [200, 404, 200]
    refused = await guarded.get("/api/verify", headers=headers("ann"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "ACCESS_DENIED")
    assert (await guarded.get("/api/verify", headers=headers("eve", "auditor"))).status_code == 200
    refused = await guarded.post("/api/rules/diff", json={}, headers=headers("ann"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "ACCESS_DENIED")
    replayed = await guarded.post("/api/replay", json={"decision_id": of_ann}, headers=headers("bob"))
    assert replayed.status_code == 404
    replayed = await guarded.post("/api/replay", json={"user_id": "ann"}, headers=headers("bob"))
    assert replayed.status_code == 403


async def test_a_timeline_divides_the_metrics(environment: Environment, client: httpx.AsyncClient) -> None:
    hours = (1, 3, 4)
    records = (make_record(hour, at=NOON + timedelta(hours=hour), user=LOCAL_USER) for hour in hours)
    store_records(environment.database, *records)
    params: dict[str, Any] = {"since": NOON.isoformat(), "until": (NOON + timedelta(hours=6)).isoformat(), "parts": 3}
    parts = (await client.get("/api/metrics/timeline", params=params)).json()
    assert [part["total"] for part in parts] == [1, 1, 1]
    assert [part["since"] for part in parts] == ["2026-03-10T12:00:00Z", "2026-03-10T14:00:00Z", "2026-03-10T16:00:00Z"]
    assert len((await client.get("/api/metrics/timeline")).json()) == 24


async def test_the_record_verifies_and_an_edit_is_found(environment: Environment, client: httpx.AsyncClient) -> None:
    kept, edited = await said(client, "add a task to call mom"), await said(client, "show my tasks")
    await environment.runtime().tree.seal()
    assert (await client.get(f"/api/decisions/{edited}")).json()["violations"] == []
    (*progress, last) = await streamed(client, "/api/verify")
    assert progress == [("progress", {"checked": 2, "total": 2})]
    assert (last[0], last[1]["intact"], last[1]["records"]) == ("report", True, 2)

    statement = f"UPDATE decision_logs SET response_text = 'forged' WHERE decision_id = '{edited}'"
    await environment.database.write(lambda connection: connection.exec_driver_sql(statement) and None)
    assert (await client.get(f"/api/decisions/{kept}")).json()["violations"] == []
    [violation] = (await client.get(f"/api/decisions/{edited}")).json()["violations"]
    assert (violation["kind"], violation["decision_id"]) == ("projection", edited)
    _, report = (await streamed(client, "/api/verify"))[-1]
    assert (report["intact"], {one["decision_id"] for one in report["violations"]}) == (False, {edited})
